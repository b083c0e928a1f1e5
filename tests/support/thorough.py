"""How long tests may take: `THOROUGH=1` runs what takes long and fails rarely, and more rounds of what is random."""

import os
from typing import Final

THOROUGH: Final = bool(os.environ.get("THOROUGH"))


def examples(thorough: int) -> int:
    """How many examples a property is tried with: so many with THOROUGH=1, else a fifth."""
    return thorough if THOROUGH else thorough // 5
