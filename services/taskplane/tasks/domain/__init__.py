"""The rules of tasks: their rows and events, the state table, the effect of each operation, the fold.

Pure: no I/O, no clock, no SQL. Of A2A messages it reads only the few fields that the rules need.
"""
