"""The metrics of the session history, besides those of its calls and commits."""

from typing import Final

from prometheus_client import Gauge

WATCHERS: Final = Gauge("taskplane_entry_watchers", "Watchers of the entries of a session, served by this process.")
