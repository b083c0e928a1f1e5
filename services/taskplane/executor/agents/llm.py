"""The name of `taskplane.agents.llm` before release 0.1; it goes with release 0.2."""

import warnings
from typing import Any

from taskplane.agents import llm

warnings.warn("taskplane.executor.agents.llm is taskplane.agents.llm now", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    """Return the object with this name in `taskplane.agents.llm`."""
    return getattr(llm, name)
