"""The settings of all services together, so that every process recognises a misspelt variable."""

from typing import Any, Final

from taskplane.agents.llm.settings import PREFIX as LLM
from taskplane.agents.llm.settings import LlmSettings
from taskplane.executor.settings import PREFIX as EXECUTOR
from taskplane.executor.settings import ExecutorSettings
from taskplane.gateway.settings import PREFIX as GATEWAY
from taskplane.gateway.settings import GatewaySettings
from taskplane.sessions.settings import PREFIX as SESSIONS
from taskplane.sessions.settings import SessionsSettings
from taskplane.tasks.settings import PREFIX as TASKS
from taskplane.tasks.settings import TasksSettings
from taskplane.worker.settings import PREFIX as WORKER
from taskplane.worker.settings import WorkerSettings

KNOWN: Final[tuple[tuple[type[Any], str], ...]] = (
    (TasksSettings, TASKS),
    (SessionsSettings, SESSIONS),
    (ExecutorSettings, EXECUTOR),
    (GatewaySettings, GATEWAY),
    (WorkerSettings, WORKER),
    (LlmSettings, LLM),
)
# Read by the command itself: the server of `chat`, `tail`, `task` and `session`, and the API key for it.
ALSO: Final = ("TASKPLANE_URL", "TASKPLANE_TOKEN")
