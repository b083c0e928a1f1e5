"""Ranges of bytes (RFC 9110, section 14): one range of a response of known size."""

import re
from typing import Final, NamedTuple

_RANGE: Final = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.IGNORECASE)
# Stands for any larger number, which is beyond the end of everything.
_FAR: Final = 10**18


class ByteRange(NamedTuple):
    """A range: from `first` up to and with `last`, or to the end (None); `first` None: the last `last` bytes."""

    first: int | None
    last: int | None

    @property
    def offset(self) -> int:
        """Return where it begins; negative: so many bytes before the end."""
        return self.first if self.first is not None else -(self.last or 0)

    def within(self, size: int) -> range | None:
        """Return the places of the range in `size` bytes; None: there are none."""
        if self.first is None:
            found = range(max(size - (self.last or 0), 0), size)
        else:
            found = range(self.first, size if self.last is None else min(self.last + 1, size))
        return found or None


def parse(text: str) -> ByteRange | None:
    """Return the range that a header Range asks for; None for several ranges and for anything else, which is answered
    with everything."""
    match = _RANGE.fullmatch(text)
    if match is None or match[1] == match[2] == "":
        return None
    first, last = [_place(digits) for digits in match.groups()]
    if first is not None and last is not None and last < first:
        return None
    return ByteRange(first, last)


def _place(digits: str) -> int | None:
    if not digits:
        return None
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) < len(str(_FAR)) else _FAR
