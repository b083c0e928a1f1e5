"""Watching a session: reading its entries from a number on, then waiting for more.

A watcher is a place, not a queue: a slow one costs no memory and misses nothing.
"""

from taskplane.sessions.watch.stream import Deleted, Quiet, Seen, Watch
from taskplane.sessions.watch.watched import Watched, keys_of

__all__ = ["Deleted", "Quiet", "Seen", "Watch", "Watched", "keys_of"]
