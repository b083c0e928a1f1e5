"""Settings of the executor, from TASKPLANE_EXECUTOR_<FIELD>."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from taskplane.runtime.bounds import Count, Duration, Interval, Lease, LogLevel, Range, out_of_range, refuse
from taskplane.runtime.sharing import SharedBy

PREFIX: Final = "TASKPLANE_EXECUTOR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # Address of the task store: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    tasks: str = "127.0.0.1:50051"
    # Address of the session history: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as
    # dns:///name:port.
    sessions: str = "127.0.0.1:50052"
    # The address to listen on, host:port or unix:/path; port 0 takes any free port.
    listen: str = "127.0.0.1:50053"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0 takes any free port.
    # Empty: none.
    ops_listen: str = "127.0.0.1:9053"
    # The agents to serve, each `[name=]module:attribute`, the short name of a shipped agent, or `name=worker:card.json`
    # for one that workers elsewhere run; the first one is the default agent.
    agents: tuple[str, ...] = ("demo",)
    # The fate of a task of such an agent whose worker is lost: fail, rerun or resume, as in the policy of an agent.
    worker_on_orphan: Literal["fail", "rerun", "resume"] = "fail"
    # Number of runs at once. Further tasks wait in the queue for any executor with free capacity; with 0 this executor
    # creates tasks and runs none.
    capacity: Count = 100
    # Those who send tasks: users of several tenants, users of one tenant, or one user alone. An owner leaves a quarter
    # of the slots that other owners do not use, a tenant an eighth of those that other tenants do not use. With users
    # a tenant may have all of them; with one, an owner may.
    shared_by: SharedBy = "tenants"
    # Number of messages per second that one owner may send to this process, in the long run, and ten times as many at
    # once; further ones are refused with SEND_RATE. 0: no limit.
    sends_per_second: Annotated[float, Range(0, 1e9)] = 1_000.0
    # Seconds in which a router may give a direct answer before the turn becomes a task. Must be more than 0; clients
    # give up after about 5 seconds of silence.
    route_timeout: Interval = 3.0
    # Seconds in which a router may give a direct answer to a send that does not stream and waits for the end of the
    # turn. Must be more than 0, and at most 25, since a gateway waits 30 seconds for an executor.
    unary_route_timeout: Annotated[float, Range(0.001, 25)] = 20.0
    # Seconds between two renewals of the leases. Must be more than 0, and at most half the lease_ttl of the task store.
    renew_every: Lease = 5.0
    # Seconds that a run may take if its agent's policy does not say, counted anew for each attempt and after each
    # pause; 0: no limit, so that a run that hangs keeps its slot until it is canceled.
    run_limit: Duration = 86_400.0
    # Seconds between two questions to an agent what it is doing, if it is a StatusWriter. Must be more than 0.
    status_interval: Interval = 5.0
    # Bytes of the conversations that this process keeps in memory, so that a further turn of a session reads only what
    # is new in it. Whole conversations are kept, those that were used last; 0: none.
    history_cache_bytes: Annotated[int, Range(0, 2**40)] = 64 * 1024 * 1024
    # Seconds after which an agent that blocks the event loop is named in the log, with its stack; 0: never.
    blocked_after: Duration = 1.0
    # Seconds after which a process whose event loop is blocked ends with code 3, so that its supervisor starts another
    # one: its other runs are lost like those of any process that dies. 0: never, as a debugger needs.
    blocked_limit: Duration = 0.0
    # Number of processes of an agent with the isolation "process" that are kept without a run for the next one, by each
    # executor; the first one is started in advance where the operator chose the isolation. 0: each run has a new
    # process.
    idle_processes: Annotated[int, Range(0, 1_000)] = 1
    # Names of variables that agents in processes of their own are given besides those of the system, such as
    # OPENAI_API_KEY; one that ends with * names all that begin so. Those of the plane itself are never given.
    process_environment: tuple[str, ...] = ()
    # Seconds that an agent may take to clean up when its run is stopped; after them an error is logged, and a process
    # that ends waits no longer; the agent's own process is killed if it has one. Must be more than 0.
    cancel_grace: Interval = 10.0
    # Seconds that runs may continue after a SIGTERM before their tasks are given to other executors; 0: at once.
    drain_timeout: Duration = 15.0
    # Seconds between two sweeps for messages that are missing in their session, for rewinds that were not applied to
    # their tasks, and for abandoned turns. Must be more than 0.
    uncopied_every: Interval = 60.0
    # Seconds after its beginning at which a turn without a task or an answer is voided. Must be more than 0, the same
    # in all executors, and much longer than the beginning of a turn takes and the clocks of the processes differ.
    abandoned_after: Interval = 60.0
    # Seconds after its last change at which a session is deleted with its tasks; 0: never. A session with a task that
    # has not ended is kept.
    session_ttl: Duration = 0.0
    # Seconds between two searches for sessions older than session_ttl. Must be more than 0; unused if session_ttl is 0.
    expire_every: Interval = 600.0
    # Whether the demo agent may end and block this process, for tests.
    allow_crash: bool = False
    # Whether a yield after a final change makes the process fail at its end, instead of being logged only. For tests of
    # agents.
    strict_agents: bool = False
    # Signs the principal of internal calls. It must be the same in every process. Empty: none; then the process refuses
    # to listen beyond loopback.
    internal_secret: str = ""
    # The least severe messages that are logged: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"

    def __post_init__(self) -> None:
        refuse(out_of_range(self))
