"""The queue of tasks that must run: assignments (claims), their duration (leases), and recovery (sweep)."""

from taskplane.tasks.queue.claims import Claims
from taskplane.tasks.queue.leases import RESIDENT, Leases
from taskplane.tasks.queue.sweep import Sweeper

__all__ = ["RESIDENT", "Claims", "Leases", "Sweeper"]
