"""Settings of a worker, from TASKPLANE_WORKER_<FIELD>: those of an executor, with other defaults."""

from dataclasses import dataclass
from typing import Final

from taskplane.executor.settings import ExecutorSettings

PREFIX: Final = "TASKPLANE_WORKER_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(ExecutorSettings):
    """Settings as those of an executor; what concerns messages and sweeps is not used."""

    # The agents to run, each `[name=]module:attribute`, under the names by which executors serve their cards.
    agents: tuple[str, ...] = ()
    # Address of the HTTP port for operators (/metrics, /healthz, /readyz), host:port; port 0 takes any free port.
    # Empty: none. If the default port is taken, as by another worker, it takes any free one.
    ops_listen: str = "127.0.0.1:9054"
