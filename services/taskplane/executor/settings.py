"""Settings of the executor, from TASKPLANE_EXECUTOR_<FIELD>."""

from dataclasses import dataclass
from typing import Final

from taskplane.runtime.errors import Invalid

PREFIX: Final = "TASKPLANE_EXECUTOR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """Times are in seconds. Invalid: a value that could not work."""

    # Where the two stores are.
    tasks: str = "127.0.0.1:50051"
    sessions: str = "127.0.0.1:50052"
    listen: str = "127.0.0.1:50053"
    # Address of the HTTP port for operators: /metrics, /healthz and /readyz. Port 0 takes any free one; empty: none.
    ops_listen: str = "127.0.0.1:9053"
    # `[name=]module:attribute` or the short name of a shipped agent; the first one is the default agent.
    agents: tuple[str, ...] = ("demo",)
    # How many runs at once.
    capacity: int = 100
    # How long an agent may think about a direct answer before its turn becomes a task.
    route_timeout: float = 3.0
    # How often leases are renewed; well below the lease_ttl of the task store.
    renew_every: float = 5.0
    # How long a run may take where its agent does not say; 0: for ever.
    run_limit: float = 0.0
    # How long an agent may take to wind down when its run is stopped.
    cancel_grace: float = 10.0
    # How long runs may go on after a SIGTERM before they are released.
    drain_timeout: float = 15.0
    # How often is looked for tasks whose messages are missing in their session, for sessions whose rewinds were not
    # carried out on their tasks, and for turns that came to nothing.
    uncopied_every: float = 60.0
    # How long after it was begun a turn without a task has come to nothing. The same in all executors; many times what
    # beginning a turn takes, and what the clocks of the session history's processes differ.
    abandoned_after: float = 60.0
    # How long after its last change a session is deleted, with its tasks; 0: never. One with a task that has not ended
    # stays.
    session_ttl: float = 0.0
    # How often sessions are looked for that are older than that.
    expire_every: float = 600.0
    # The demo agent may end this process.
    allow_crash: bool = False
    # A yield after a final change stops the process at its end, instead of being logged only. For tests of agents.
    strict_agents: bool = False
    # Signs who calls; the same in every process. Needed to listen beyond loopback.
    internal_secret: str = ""
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        wrong: dict[str, str] = {}
        for name in (
            "route_timeout",
            "renew_every",
            "cancel_grace",
            "uncopied_every",
            "abandoned_after",
            "expire_every",
        ):
            if not getattr(self, name) > 0:
                wrong[name] = "must be more than 0"
        for name in ("capacity", "run_limit", "drain_timeout", "session_ttl"):
            if getattr(self, name) < 0:
                wrong[name] = "must not be negative"
        if wrong:
            text = "; ".join(f"{name} {problem}" for name, problem in wrong.items())
            raise Invalid(f"these settings cannot be used: {text}", reason="BAD_SETTING", fields=wrong)
