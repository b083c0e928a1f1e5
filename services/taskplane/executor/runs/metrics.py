"""The metrics of runs, by agent."""

from typing import Final

from taskplane.runtime.plain_metrics import Counter, Gauge

RUNS: Final = Gauge("taskplane_runs", "Runs at work in this process.", ["agent"])
PROCESSES: Final = Gauge("taskplane_agent_processes", "Processes in which agents run for this one.", ["agent"])
STARTED: Final = Counter("taskplane_runs_started", "Runs started by this process.", ["agent"])
STOPPED: Final = Counter("taskplane_runs_stopped", "Runs that were canceled or lost their lease.", ["agent"])
