"""The metric of agent processes, by agent."""

from typing import Final

from taskplane.runtime.plain_metrics import Gauge

PROCESSES: Final = Gauge("taskplane_agent_processes", "Agent processes of this process.", ["agent"])
