"""The resource names of A2A 0.3 over gRPC: `tasks/{task}` and `tasks/{task}/pushNotificationConfigs/{config}`."""

from typing import Final

_TASKS: Final = "tasks/"
_CONFIGS: Final = "/pushNotificationConfigs"


def of_task(task_id: str) -> str:
    """Return the name of a task."""
    return _TASKS + task_id


def of_config(task_id: str, config_id: str) -> str:
    """Return the name of a push notification config; without its id, that of its collection."""
    return f"{of_task(task_id)}{_CONFIGS}{'/' if config_id else ''}{config_id}"


def task_id(name: str) -> str:
    """Return the id in the name of a task; empty if it is no such name."""
    return name.removeprefix(_TASKS) if name.startswith(_TASKS) else ""


def config_ids(name: str) -> tuple[str, str]:
    """Return the ids of task and config in the name of a config; empty where the name has none."""
    task, _, config = task_id(name).partition(_CONFIGS)
    return task, config.removeprefix("/")
