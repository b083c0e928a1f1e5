"""Settings of the session history, from TASKPLANE_SESSIONS_<FIELD>."""

from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.errors import Invalid

PREFIX: Final = "TASKPLANE_SESSIONS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSettings:
    """Times are in seconds. Invalid: a value that could not work."""

    # sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/sessions.db"
    # "relaxed" may lose the last commits when the machine crashes.
    durability: Literal["full", "relaxed"] = "full"
    # Connections that read at once on SQLite; PostgreSQL has four times as many.
    readers: int = 2
    listen: str = "127.0.0.1:50052"
    # Address of the HTTP port for operators: /metrics, /healthz and /readyz. Port 0 takes any free one; empty: none.
    ops_listen: str = "127.0.0.1:9052"
    # Signs who calls; the same in every process. Needed to listen beyond loopback.
    internal_secret: str = ""
    # How soon an entry is noticed that another process wrote.
    poll_every: float = 1.0
    # How long streams and calls may go on after a SIGTERM.
    drain_timeout: float = 5.0
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        for name in ("poll_every", "drain_timeout"):
            if not getattr(self, name) > 0:
                wrong[name] = "must be more than 0"
        if self.readers < 1:
            wrong["readers"] = "must be at least 1"
        if wrong:
            text = "; ".join(f"{name} {problem}" for name, problem in wrong.items())
            raise Invalid(f"these settings cannot be used: {text}", reason="BAD_SETTING", fields=wrong)
