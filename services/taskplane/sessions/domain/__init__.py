"""The rules of sessions. Pure: no I/O, no clock, no logging."""
