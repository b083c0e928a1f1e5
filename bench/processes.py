"""What the system tells about a server under test: its memory, and the time of processors that it took."""

import os
from pathlib import Path


class Process:
    """The process that has this folder among its arguments; all its figures are 0 where there is no /proc."""

    def __init__(self, folder: Path) -> None:
        self._of: Path | None = None
        for found in Path("/proc").glob("[0-9]*"):
            try:
                if str(folder) in (found / "cmdline").read_text():
                    self._of = found
            except OSError:
                continue

    def memory(self, *, peak: bool = False) -> int:
        """Megabytes that it has, or the most that it had."""
        if self._of is None:
            return 0
        lines = dict(line.split(":", 1) for line in (self._of / "status").read_text().splitlines())
        return int(lines["VmHWM" if peak else "VmRSS"].split()[0]) // 1024

    def seconds(self) -> float:
        """Seconds of processors that all its threads took so far."""
        if self._of is None:
            return 0.0
        ticks = (self._of / "stat").read_text().rpartition(")")[2].split()
        return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
