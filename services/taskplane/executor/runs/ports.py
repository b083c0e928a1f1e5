"""Dependencies shared by all runs of one executor process."""

from dataclasses import dataclass

from taskplane.agents.processes.pool import AgentProcesses
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub, TaskStoreStub
from taskplane.executor.runs.appender import Appender
from taskplane.executor.runs.given_ids import SessionsAtWork
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.copying import Copier
from taskplane.executor.sweeps.reconcile import Reconciler


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The stores, the ways to write to them, and settings of the process. Times in seconds."""

    store: TaskStoreStub
    queue: TaskQueueStub
    sessions: SessionLog
    copier: Copier
    reconciler: Reconciler
    appender: Appender
    processes: AgentProcesses
    at_work: SessionsAtWork
    # Named in every event and copy of this process.
    actor: str
    # How long a run may take where its agent does not say; 0: for ever.
    run_limit: float
    # Between two calls of a StatusWriter.
    status_interval: float
    # Time of an agent to clean up when its run is stopped.
    cancel_grace: float
    # A yield after the final change raises out of the run, instead of being logged only.
    strict: bool
