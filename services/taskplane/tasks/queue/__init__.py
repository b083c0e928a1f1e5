"""The queue of tasks that must run: who runs what (claims), for how long (leases), and what is taken back (sweep)."""

from taskplane.tasks.queue.claims import Claims
from taskplane.tasks.queue.leases import RESIDENT, Leases
from taskplane.tasks.queue.sweep import Sweeper

__all__ = ["RESIDENT", "Claims", "Leases", "Sweeper"]
