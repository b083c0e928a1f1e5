"""Repair of texts that were cut between the halves of a surrogate pair, or that have a half of one only."""

import re
from typing import Final

_ANY: Final = re.compile("[\ud800-\udfff]")


class Surrogates:
    """One growing text. A high surrogate at the end of a piece waits for the next piece."""

    def __init__(self) -> None:
        self._held = ""

    @property
    def waits(self) -> bool:
        """Return whether a first half waits."""
        return bool(self._held)

    def join(self, piece: str) -> str:
        """Return the complete text so far: every pair as one character, U+FFFD for a half without the other."""
        piece = self._held + piece
        self._held = ""
        if piece.isascii() or not _ANY.search(piece):
            return piece
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        return _joined(piece)

    def end(self) -> str:
        """Return the rest of the text."""
        held, self._held = self._held, ""
        return _joined(held)


def _joined(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
