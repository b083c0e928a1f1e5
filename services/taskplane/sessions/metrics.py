"""The metrics of the session history, besides those of its calls and commits."""

from typing import Final

from taskplane.runtime.plain_metrics import Gauge

WATCHERS: Final = Gauge("taskplane_entry_watchers", "Watchers of the entries of a session, served by this process.")
