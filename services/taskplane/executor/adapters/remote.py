"""The name of `taskplane.agents.adapters.remote` before release 0.1; it goes with release 0.2."""

import warnings

from taskplane.agents.adapters.remote import RemoteAgent, adapt

__all__ = ["RemoteAgent", "adapt"]

warnings.warn("taskplane.executor.adapters.remote is taskplane.agents.adapters.remote now", FutureWarning, stacklevel=2)
