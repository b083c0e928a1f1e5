"""Watching a task, or all of a session: reading from a place, then waiting for more.

A watcher is a place, not a queue: a slow one costs no memory and misses nothing. The newest commits are
kept here too, so that watchers at the head need no database; it is a copy of the log, and may be lost.
"""

from taskplane.tasks.watch.event_cache import EventCache
from taskplane.tasks.watch.following import SessionStreams
from taskplane.tasks.watch.stream import Records, Watch
from taskplane.tasks.watch.watched import Watched

__all__ = ["EventCache", "Records", "SessionStreams", "Watch", "Watched"]
