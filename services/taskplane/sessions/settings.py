"""Settings of the session history, from TASKPLANE_SESSIONS_<FIELD>."""

from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.bounds import Connections, Interval, LogLevel
from taskplane.runtime.settings import Settings

PREFIX: Final = "TASKPLANE_SESSIONS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSettings(Settings):
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # URL of the database: sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/sessions.db"
    # Durability of commits. full: each commit is synced to disk before its acknowledgement. relaxed: a crash of the
    # machine may lose the last commits; a crash of the process loses none.
    durability: Literal["full", "relaxed"] = "full"
    # Maximum number of database connections for reads, opened on demand. At least 1.
    readers: Connections = 4
    # Number of connections for writes to PostgreSQL; SQLite always has one. At least 1. With more than one, one is
    # reserved for imports and sweeps, and the others commit batches in parallel.
    writers: Connections = 4
    # Address to listen on, host:port or unix:/path; port 0: any free port.
    listen: str = "127.0.0.1:50052"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0: any free port. Empty: no
    # such port.
    ops_listen: str = "127.0.0.1:9052"
    # Shared secret that signs the principal of internal calls. It must be the same in every process. Empty: no
    # signature, and the process refuses to listen beyond loopback.
    internal_secret: str = ""
    # Delay in seconds after which an entry of another process is noticed even if its notification was lost. Must be
    # more than 0.
    poll_every: Interval = 10.0
    # Whether processes of this store notify each other of commits, by LISTEN and NOTIFY on a separate connection to
    # PostgreSQL. Use false behind a pooler that shares connections between transactions. Other processes then only
    # poll; set poll_every to 1 or less.
    notifications: bool = True
    # Time in seconds for open streams and calls after a SIGTERM. Must be more than 0.
    drain_timeout: Interval = 5.0
    # Lowest level of logged messages: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"
