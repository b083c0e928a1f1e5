"""The rules of tasks: what a task and an event are, which state may follow which, what each operation does, the fold.

Pure: no I/O, no clock, no SQL. Reads of the A2A messages only the few fields its rules need.
"""
