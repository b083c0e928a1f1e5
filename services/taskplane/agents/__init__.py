"""The names that authors of agents import: the protocol of agents, and the changes that a run yields.

`taskplane.agents.adapters` has the adapters of other libraries; `taskplane.agents.llm` and `taskplane.agents.demo` are
shipped agents. This package imports no server.
"""

from taskplane.agents.agent import *  # noqa: F403
from taskplane.agents.agent import __all__ as __all__
