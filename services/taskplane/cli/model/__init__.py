"""The model of a conversation: the display of a stream, the effect of a rewind, and the task of the next message.

It does no I/O and knows no terminal, so it is the same for every user interface.
"""
