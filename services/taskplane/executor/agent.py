"""The name of `taskplane.agents.agent` before release 0.1; it goes with release 0.2."""

import warnings

from taskplane.agents.agent import *  # noqa: F403

warnings.warn("taskplane.executor.agent is taskplane.agents.agent now", DeprecationWarning, stacklevel=2)
