"""Workers: processes that run agents for an executor that serves their cards."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskplane.worker.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:
    """Import `Worker` on demand: every process imports the settings in this package, and few need the worker's code."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from taskplane.worker import worker

    return getattr(worker, name)
