"""Settings of the task store, from TASKPLANE_TASKS_<FIELD>."""

from dataclasses import dataclass
from typing import Final, Literal

from taskplane.runtime.errors import Invalid

PREFIX: Final = "TASKPLANE_TASKS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSettings:
    """Times are in seconds. Invalid: a combination that could not work."""

    # sqlite:///relative.db, sqlite:////absolute.db or postgresql://user:password@host/name.
    database_url: str = "sqlite:///.taskplane/tasks.db"
    # "relaxed" may lose the last commits when the machine crashes.
    durability: Literal["full", "relaxed"] = "full"
    # Connections that read at once on SQLite; PostgreSQL has four times as many.
    readers: int = 2
    listen: str = "127.0.0.1:50051"
    # Address of the HTTP port for operators: /metrics, /healthz and /readyz. Port 0 takes any free one; empty: none.
    ops_listen: str = "127.0.0.1:9051"
    # Signs who calls; the same in every process. Needed to listen beyond loopback.
    internal_secret: str = ""
    # How long a lease lasts, and how often executors renew theirs.
    lease_ttl: float = 15.0
    renew_every: float = 5.0
    # How often leases that ran out are looked for.
    sweep_every: float = 2.0
    # How soon a change is noticed whose bell was lost.
    poll_every: float = 1.0
    # How long after its end a task keeps all its events; 0: for ever. The task itself stays, and so do the events that
    # say what it was asked and how its state changed.
    events_ttl: float = 0.0
    # How often events are looked for that are older than that.
    trim_every: float = 300.0
    # How long streams and calls may go on after a SIGTERM.
    drain_timeout: float = 5.0
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        for name in ("lease_ttl", "renew_every", "sweep_every", "poll_every", "trim_every", "drain_timeout"):
            if not getattr(self, name) > 0:
                wrong[name] = "must be more than 0"
        if self.events_ttl < 0:
            wrong["events_ttl"] = "must not be negative"
        if not wrong and self.lease_ttl < 2 * self.renew_every:
            wrong["lease_ttl"] = "must be at least twice renew_every, so that one renewal may be lost"
        if self.readers < 1:
            wrong["readers"] = "must be at least 1"
        if wrong:
            text = "; ".join(f"{name} {problem}" for name, problem in wrong.items())
            raise Invalid(f"these settings cannot be used: {text}", reason="BAD_SETTING", fields=wrong)
