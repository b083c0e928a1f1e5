"""Settings of the task store, from TASKPLANE_TASKS_<FIELD>."""

from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.bounds import Connections, Count, Duration, Interval, Lease, LogLevel, out_of_range, refuse

PREFIX: Final = "TASKPLANE_TASKS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSettings:
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # The URL of the database: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/tasks.db"
    # With "full" every commit is synced to disk before it is acknowledged. With "relaxed" a crash of the machine may
    # lose the last commits; a crash of the process does not.
    durability: Literal["full", "relaxed"] = "full"
    # Number of database connections that read, opened as they are needed. At least 1.
    readers: Connections = 4
    # Number of connections that write to a PostgreSQL database; SQLite has one. At least 1; of more than one, one is
    # kept for imports and sweeps, and the others commit batches side by side.
    writers: Connections = 4
    # The address to listen on, host:port or unix:/path; port 0 takes any free port.
    listen: str = "127.0.0.1:50051"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0 takes any free port.
    # Empty: none.
    ops_listen: str = "127.0.0.1:9051"
    # Signs the principal of internal calls. It must be the same in every process. Empty: none; then the process refuses
    # to listen beyond loopback.
    internal_secret: str = ""
    # Seconds that a lease lasts after each renewal: the time until a task of a lost executor fails or runs again. Must
    # be at least twice renew_every, so that one renewal may be lost.
    lease_ttl: Lease = 15.0
    # Seconds between two renewals of a lease; the executors' own renew_every should be the same. Must be more than 0.
    renew_every: Lease = 5.0
    # Seconds between two searches for expired leases. Must be more than 0; a long interval delays the recovery of tasks
    # of lost executors.
    sweep_every: Interval = 2.0
    # Seconds after which a change of another process is noticed even if its notification was lost. Must be more than 0.
    poll_every: Interval = 10.0
    # Number of queued tasks of one owner; further ones are refused with QUEUE_LIMIT. 0: no limit.
    queued_per_owner: Count = 1_000
    # Number of queued tasks of all owners of one tenant; further ones are refused with QUEUE_LIMIT. 0: no limit.
    queued_per_tenant: Count = 10_000
    # Seconds that a new task may wait in the queue, each time that it does, before it ends as failed (QUEUE_TIMEOUT),
    # unless its agent has a limit of its own. 0: no limit.
    queue_limit: Duration = 0.0
    # Seconds that a new task may wait for its user, each time that it does, before it ends as failed (PAUSE_TIMEOUT),
    # unless its agent has a limit of its own. 0: no limit.
    pause_limit: Duration = 0.0
    # Seconds after its end for which a task keeps all its events; 0: for ever. Later the task itself stays, and so do
    # the events with the user's messages and the changes of state.
    events_ttl: Duration = 0.0
    # Seconds between two searches for events older than events_ttl. Must be more than 0; unused if events_ttl is 0.
    trim_every: Interval = 300.0
    # Whether the processes of this store tell one another of their commits, by LISTEN and NOTIFY on a connection of its
    # own to PostgreSQL. Set it to false if a pooler shares connections between transactions; then other processes only
    # poll, so set poll_every to 1 or less.
    notifications: bool = True
    # Seconds that streams and calls may continue after a SIGTERM. Must be more than 0.
    drain_timeout: Interval = 5.0
    # The least severe messages that are logged: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    def __post_init__(self) -> None:
        wrong = out_of_range(self)
        if not wrong and self.lease_ttl < 2 * self.renew_every:
            wrong["lease_ttl"] = "must be at least twice renew_every: one lost renewal must not end a lease"
        refuse(wrong)
