"""The duration of tests: `THOROUGH=1` runs slow tests that rarely fail, and more rounds of random ones."""

import os
from typing import Final

THOROUGH: Final = bool(os.environ.get("THOROUGH"))


def examples(thorough: int) -> int:
    """The number of examples for a property: all with THOROUGH=1, else a fifth."""
    return thorough if THOROUGH else thorough // 5
