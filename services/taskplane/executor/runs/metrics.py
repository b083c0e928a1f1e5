"""The metrics of runs, by agent."""

from typing import Final

from taskplane.runtime.plain_metrics import Counter, Gauge

RUNS: Final = Gauge("taskplane_runs", "Running agents of this process.", ["agent"])
STARTED: Final = Counter("taskplane_runs_started", "Runs started by this process.", ["agent"])
STOPPED: Final = Counter("taskplane_runs_stopped", "Runs stopped because of a cancellation or a lost lease.", ["agent"])
