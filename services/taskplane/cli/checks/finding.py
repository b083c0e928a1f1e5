"""The result of a check."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `suggestion`: the next step of the reader, or ""."""

    status: Status
    check: str
    message: str
    suggestion: str = ""
