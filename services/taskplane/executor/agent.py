"""The name of `taskplane.agents` before release 0.1; it goes with release 0.2."""

import warnings

from taskplane.agents import *  # noqa: F403
from taskplane.agents.agent import MAX_CHECKPOINT_BYTES as MAX_CHECKPOINT_BYTES
from taskplane.agents.policy import ISOLATIONS as ISOLATIONS

warnings.warn("taskplane.executor.agent is taskplane.agents now", FutureWarning, stacklevel=2)
