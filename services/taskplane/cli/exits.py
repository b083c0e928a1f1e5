"""Exit codes of every command. Scripts rely on them; they never change."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
UNAUTHORIZED: Final = 4
NOT_FOUND: Final = 5
TIMED_OUT: Final = 6
INTERRUPTED: Final = 130
