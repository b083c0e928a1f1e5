"""What can be stored as an id."""

import re
from typing import Final

MAX_ID: Final = 255

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_id(value: str) -> bool:
    """Whether `value` can be stored as an id."""
    return 0 < len(value) <= MAX_ID and not has_control(value)


def has_control(value: str) -> bool:
    """Whether there is a control character in `value`, or half of one that is none."""
    return not value.isprintable() and _CONTROL.search(value) is not None
