"""Workers: processes elsewhere that run agents whose cards an executor serves."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskplane.worker.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:
    """Import what is public when it is asked for: every process reads the settings here, and few run agents."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from taskplane.worker import worker

    return getattr(worker, name)
