"""The rules of sessions. Nothing here does I/O, reads a clock or logs."""
