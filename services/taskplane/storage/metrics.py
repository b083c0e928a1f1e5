"""The metrics of commits. `store` is the service of the database."""

from typing import Final

from taskplane.runtime.metrics import BUCKETS
from taskplane.runtime.plain_metrics import Counter, Gauge, Histogram

OPERATIONS: Final = Histogram(
    "taskplane_commit_operations",
    "Operations in one committed transaction.",
    ["store"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
SECONDS: Final = Histogram(
    "taskplane_commit_seconds", "Seconds from the beginning of a transaction to its commit.", ["store"], buckets=BUCKETS
)
FAILED: Final = Counter("taskplane_commits_failed", "Transactions that failed.", ["store"])
WAITING: Final = Gauge("taskplane_operations_waiting", "Operations waiting for their commit.", ["store"])
NOTIFICATIONS: Final = Gauge(
    "taskplane_notifications_connected",
    "1 if notifications from other processes of the store arrive, 0 if they do not.",
    ["store"],
)
