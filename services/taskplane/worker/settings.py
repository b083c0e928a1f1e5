"""Settings of a worker, from TASKPLANE_WORKER_<FIELD>: the fields of an executor, with other defaults."""

from dataclasses import dataclass
from typing import Final

from taskplane.executor.settings import ExecutorSettings

PREFIX: Final = "TASKPLANE_WORKER_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(ExecutorSettings):
    """The settings of an executor; settings for messages and sweeps have no effect."""

    # Agents to run, each `[name=]module:attribute`, with the same names as at the executors that serve their cards.
    agents: tuple[str, ...] = ()
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0: any free port. Empty: no
    # such port. If the default port is in use, for example by another worker: any free port.
    ops_listen: str = "127.0.0.1:9054"
