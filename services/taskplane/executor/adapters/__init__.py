"""The name of `taskplane.agents.adapters` before release 0.1; it goes with release 0.2."""

import warnings

from taskplane.agents.adapters import *  # noqa: F403

warnings.warn("taskplane.executor.adapters is taskplane.agents.adapters now", FutureWarning, stacklevel=2)
