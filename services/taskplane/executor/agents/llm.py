"""The name of `taskplane.agents.llm` before release 0.1; it goes with release 0.2."""

import warnings
from typing import Any

from taskplane.agents import llm

warnings.warn("taskplane.executor.agents.llm is taskplane.agents.llm now", FutureWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    """Return the object with this name in `taskplane.agents.llm`. AttributeError: there is none."""
    # A `__path__` would make this a package, with second copies of the modules of taskplane.agents.llm.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(llm, name)
