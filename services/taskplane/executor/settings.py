"""Settings of the executor, from TASKPLANE_EXECUTOR_<FIELD>."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from taskplane.runtime.bounds import Count, Duration, Interval, Lease, LogLevel, Range
from taskplane.runtime.settings import Settings
from taskplane.runtime.sharing import SharedBy

PREFIX: Final = "TASKPLANE_EXECUTOR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings(Settings):
    """Settings in seconds unless they say otherwise. A value that cannot work raises Invalid."""

    # Address of the task store: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port.
    tasks: str = "127.0.0.1:50051"
    # Address of the session history: host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as
    # dns:///name:port.
    sessions: str = "127.0.0.1:50052"
    # Address to listen on, host:port or unix:/path; port 0: any free port.
    listen: str = "127.0.0.1:50053"
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0: any free port. Empty: no
    # such port.
    ops_listen: str = "127.0.0.1:9053"
    # Agents to serve: `[name=]module:attribute`, the name of a built-in agent, or `name=worker:card.json` for an agent
    # of workers. The first one is the default agent.
    agents: tuple[str, ...] = ("demo",)
    # Policy for tasks of a lost worker: fail, rerun or resume, as in the policy of an agent.
    worker_on_orphan: Literal["fail", "rerun", "resume"] = "fail"
    # Maximum number of runs at once. Further tasks wait in the queue for an executor with a free slot. 0: this executor
    # creates tasks and runs none.
    capacity: Count = 100
    # Fair sharing of slots: tenants if users of several tenants send tasks, users if one tenant has several users, one
    # if there is one user. An owner may not take the last quarter of the slots that other owners do not use, a tenant
    # not the last eighth. With users, a tenant may use all slots; with one, an owner may.
    shared_by: SharedBy = "tenants"
    # Maximum number of messages per second from one owner to this process on average, with bursts of ten times as many;
    # further messages are refused with SEND_RATE. 0: no limit.
    sends_per_second: Annotated[float, Range(0, 1e9)] = 1_000.0
    # Time in seconds for a direct answer of a router; then the turn becomes a task. Must be more than 0. Clients give
    # up after about 5 seconds of silence.
    route_timeout: Interval = 3.0
    # Time in seconds for a direct answer of a router to a send without a stream that waits for the end of the turn.
    # Must be more than 0 and at most 25, since a gateway waits 30 seconds for an executor.
    unary_route_timeout: Annotated[float, Range(0.001, 25, "seconds")] = 20.0
    # Interval in seconds between two renewals of leases. Must be more than 0 and at most half the lease_ttl of the task
    # store.
    renew_every: Lease = 5.0
    # Maximum duration of a run in seconds, unless the policy of its agent sets another limit. Each attempt and each run
    # after a pause starts at zero. 0: no limit; a run that hangs then keeps its slot until its cancellation.
    run_limit: Duration = 86_400.0
    # Interval in seconds between two requests for a status text to an agent that is a StatusWriter. Must be more than
    # 0.
    status_interval: Interval = 5.0
    # Memory in bytes for cached conversations, so that a further turn of a session reads only its new entries. Whole
    # conversations are kept, the most recently used ones. 0: no cache.
    history_cache_bytes: Annotated[int, Range(0, 2**40, "bytes")] = 64 * 1024 * 1024
    # Time in seconds after which an agent that blocks the event loop is logged with its stack. 0: never.
    blocked_after: Duration = 1.0
    # Time in seconds after which a process with a blocked event loop exits with code 3, so that its supervisor restarts
    # it. Its other runs are lost, as with any process that dies. 0: never, for use with a debugger.
    blocked_limit: Duration = 0.0
    # Number of idle processes that each executor keeps per agent with the isolation "process" for the next run. The
    # first one starts in advance if the operator chose the isolation. 0: each run gets a new process.
    idle_processes: Annotated[int, Range(0, 1_000)] = 1
    # Names of environment variables for agents in separate processes, in addition to variables of the system, such as
    # OPENAI_API_KEY. A name that ends with * matches all variables with this prefix. Variables of the plane itself are
    # never passed on.
    process_environment: tuple[str, ...] = ()
    # Time in seconds for the clean-up of an agent after its run is stopped. Afterwards an error is logged, a separate
    # process of the agent is killed, and a process that shuts down waits no longer. Must be more than 0.
    cancel_grace: Interval = 10.0
    # Time in seconds for running agents after a SIGTERM. Then unfinished tasks are released, and the on_orphan of their
    # agent decides: fail (the default), rerun or resume. 0: at once.
    drain_timeout: Duration = 15.0
    # Interval in seconds between two sweeps for messages that are missing in their session, rewinds not yet applied to
    # tasks, and abandoned turns. Must be more than 0.
    uncopied_every: Interval = 60.0
    # Age in seconds after which a turn without a task or an answer is voided. Must be more than 0, the same in all
    # executors, and much longer than the beginning of a turn and the clock differences between processes.
    abandoned_after: Interval = 60.0
    # Age in seconds after its last change at which a session is deleted with its tasks. A session with an unfinished
    # task is kept. 0: never.
    session_ttl: Duration = 0.0
    # Interval in seconds between two searches for sessions older than session_ttl. Must be more than 0; unused if
    # session_ttl is 0.
    expire_every: Interval = 600.0
    # Whether the demo agent may end or block this process. For tests.
    allow_crash: bool = False
    # Whether a yield after a final change makes the process fail at its end, in addition to the log entry. For tests of
    # agents.
    strict_agents: bool = False
    # Shared secret that signs the principal of internal calls. It must be the same in every process. Empty: no
    # signature, and the process refuses to listen beyond loopback.
    internal_secret: str = ""
    # Lowest level of logged messages: DEBUG, INFO, WARNING or ERROR.
    log_level: LogLevel = "INFO"
