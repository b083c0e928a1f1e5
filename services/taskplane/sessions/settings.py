"""Settings of the session history, from TASKPLANE_SESSIONS_<FIELD>."""

from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.bounds import Connections, Interval, LogLevel, out_of_range, refuse

PREFIX: Final = "TASKPLANE_SESSIONS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSettings:
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # The URL of the database: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/sessions.db"
    # With "full" every commit is synced to disk before it is acknowledged. With "relaxed" a crash of the machine may
    # lose the last commits; a crash of the process does not.
    durability: Literal["full", "relaxed"] = "full"
    # Number of database connections that read, opened as they are needed. At least 1.
    readers: Connections = 4
    # Number of connections that write to a PostgreSQL database; SQLite has one. At least 1; of more than one, one is
    # kept for imports and sweeps, and the others commit batches side by side.
    writers: Connections = 4
    # The address to listen on, host:port or unix:/path; port 0 takes any free port.
    listen: str = "127.0.0.1:50052"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0 takes any free port.
    # Empty: none.
    ops_listen: str = "127.0.0.1:9052"
    # Signs the principal of internal calls. It must be the same in every process. Empty: none; then the process refuses
    # to listen beyond loopback.
    internal_secret: str = ""
    # Seconds after which an entry of another process is noticed even if its notification was lost. Must be more than 0.
    poll_every: Interval = 10.0
    # Whether the processes of this store tell one another of their commits, by LISTEN and NOTIFY on a connection of its
    # own to PostgreSQL. Set it to false if a pooler shares connections between transactions; then other processes only
    # poll, so set poll_every to 1 or less.
    notifications: bool = True
    # Seconds that streams and calls may continue after a SIGTERM. Must be more than 0.
    drain_timeout: Interval = 5.0
    # The least severe messages that are logged: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    def __post_init__(self) -> None:
        refuse(out_of_range(self))
