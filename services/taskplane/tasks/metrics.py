"""The metrics of the task store, besides those of its calls and commits; `lifecycle` has those of created tasks."""

from typing import Final

from taskplane.runtime.plain_metrics import Counter, Gauge

TASKS: Final = Gauge("taskplane_tasks", "Tasks in the database that have not ended, by state.", ["state"])
QUEUED: Final = Gauge("taskplane_queue_depth", "Tasks in the database that wait for an executor, by agent.", ["agent"])
OLDEST: Final = Gauge(
    "taskplane_queue_oldest_seconds", "Waiting time of the oldest queued task in seconds, by agent.", ["agent"]
)
UNCOPIED: Final = Gauge(
    "taskplane_tasks_uncopied", "Ended and paused tasks with messages that are missing in their session."
)
EXECUTORS: Final = Gauge("taskplane_executors", "Executors that are alive.")
LEASES_LOST: Final = Counter("taskplane_leases_lost", "Expired leases found by this process.")
WATCHERS: Final = Gauge("taskplane_watchers", "Watchers served by this process, of one task or of a session.", ["of"])
