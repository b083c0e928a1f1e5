"""The command `taskplane`: one file per command. Nothing imports it, and it may import every room."""

import time

STARTED = time.perf_counter()
"""When this process began, as far as the command knows."""
