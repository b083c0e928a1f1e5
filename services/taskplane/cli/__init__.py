"""The command `taskplane`, one file per command. It may import every package; nothing imports it."""

import time

STARTED = time.perf_counter()
"""The start time of this process, by the performance counter."""
