"""Settings of the task store, from TASKPLANE_TASKS_<FIELD>."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.bounds import Connections, Count, Duration, Interval, Lease, LogLevel
from taskplane.runtime.settings import Settings

PREFIX: Final = "TASKPLANE_TASKS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSettings(Settings):
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # URL of the database: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/tasks.db"
    # Durability of commits. full: each commit is synced to disk before its acknowledgement. relaxed: a crash of the
    # machine may lose the last commits; a crash of the process loses none.
    durability: Literal["full", "relaxed"] = "full"
    # Maximum number of database connections for reads, opened on demand. At least 1.
    readers: Connections = 4
    # Number of connections for writes to PostgreSQL; SQLite always has one. At least 1. With more than one, one is
    # reserved for imports and sweeps, and the others commit batches in parallel.
    writers: Connections = 4
    # Address to listen on, host:port or unix:/path; port 0: any free port.
    listen: str = "127.0.0.1:50051"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0: any free port. Empty: no
    # such port.
    ops_listen: str = "127.0.0.1:9051"
    # Shared secret that signs the principal of internal calls. It must be the same in every process. Empty: no
    # signature, and the process refuses to listen beyond loopback.
    internal_secret: str = ""
    # Lifetime of a lease in seconds after each renewal, which is the delay until a task of a lost executor fails or
    # runs again. Must be at least twice renew_every: one lost renewal must not end a lease.
    lease_ttl: Lease = 15.0
    # Interval in seconds between two renewals of a lease. Must be more than 0. Use the same value for renew_every of
    # the executors.
    renew_every: Lease = 5.0
    # Interval in seconds between two searches for expired leases. Must be more than 0. A long interval delays the
    # recovery of tasks of lost executors.
    sweep_every: Interval = 2.0
    # Delay in seconds after which a change of another process is noticed even if its notification was lost. Must be
    # more than 0.
    poll_every: Interval = 10.0
    # Maximum number of queued tasks per owner; further tasks are refused with QUEUE_LIMIT. 0: no limit.
    queued_per_owner: Count = 1_000
    # Maximum number of queued tasks per tenant, over all its owners; further tasks are refused with QUEUE_LIMIT. 0: no
    # limit.
    queued_per_tenant: Count = 10_000
    # Maximum time in seconds of each wait in the queue; then the task fails with QUEUE_TIMEOUT. The policy of an agent
    # can set another limit. Applies to new tasks. 0: no limit.
    queue_limit: Duration = 0.0
    # Maximum time in seconds of each wait for the user; then the task fails with PAUSE_TIMEOUT. The policy of an agent
    # can set another limit. Applies to new tasks. 0: no limit.
    pause_limit: Duration = 0.0
    # Time in seconds after the end of a task for which all its events are kept. Afterwards only the task, the messages
    # of the user and the changes of state remain. 0: no limit.
    events_ttl: Duration = 0.0
    # Interval in seconds between two searches for events older than events_ttl. Must be more than 0; unused if
    # events_ttl is 0.
    trim_every: Interval = 300.0
    # Whether processes of this store notify each other of commits, by LISTEN and NOTIFY on a separate connection to
    # PostgreSQL. Use false behind a pooler that shares connections between transactions. Other processes then only
    # poll; set poll_every to 1 or less.
    notifications: bool = True
    # Time in seconds for open streams and calls after a SIGTERM. Must be more than 0.
    drain_timeout: Interval = 5.0
    # Lowest level of logged messages: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    def contradictions(self) -> Mapping[str, str]:
        """Compare the lifetime of a lease with the interval between its renewals."""
        if self.lease_ttl < 2 * self.renew_every:
            return {"lease_ttl": "must be at least twice renew_every: one lost renewal must not end a lease"}
        return {}
