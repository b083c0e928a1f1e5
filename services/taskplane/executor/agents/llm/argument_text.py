"""The texts in the arguments of a tool call, read while the JSON arrives in pieces that may be cut anywhere."""

import re
from collections.abc import Iterator
from typing import Final

from taskplane.executor.agents.llm.surrogates import Surrogates

_PLAIN: Final = re.compile(r'[^"\\]*')
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_HEX_DIGITS: Final = 4


class ArgumentText:
    """One JSON object. Every character is looked at once, so that a long text costs no more per piece than a short one.

    Keys may come in any order; values that are no texts are passed over.
    """

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._in_string = False
        # The string that is read is a key of the object itself, or the value of one.
        self._is_key = False
        self._expects_key = False
        self._key = ""
        self._escape: str | None = None
        self._surrogates = Surrogates()

    def feed(self, piece: str) -> Iterator[tuple[str, str]]:
        """Read a piece; yield the next pieces of the object's own texts with their keys."""
        at = 0
        while at < len(piece):
            at, text = self._string(piece, at) if self._in_string else self._structure(piece, at)
            if text and self._depth == 1 and not self._is_key:
                yield self._key, text

    def _structure(self, piece: str, at: int) -> tuple[int, str]:
        character = piece[at]
        if character == '"':
            self._in_string = True
            self._is_key = self._depth == 1 and self._expects_key
            if self._is_key:
                self._key = ""
        elif character in "{[":
            self._depth += 1
            self._expects_key = character == "{"
        elif character in "}]":
            self._depth -= 1
            self.complete = self._depth == 0
        elif character == ",":
            self._expects_key = True
        elif character == ":":
            self._expects_key = False
        return at + 1, ""

    def _string(self, piece: str, at: int) -> tuple[int, str]:
        if self._escape is not None:
            return at + 1, self._escaped(piece[at])
        found = _PLAIN.match(piece, at)
        end = found.end() if found else at
        text = self._text(piece[at:end]) if end > at else ""
        if end < len(piece):
            if piece[end] == "\\":
                self._escape = ""
            else:
                self._in_string = False
                text += self._text("", ends=True)
            end += 1
        return end, text

    def _escaped(self, character: str) -> str:
        escape = (self._escape or "") + character
        if escape[0] != "u":
            self._escape = None
            return self._text(_ESCAPED.get(escape, escape))
        if len(escape) <= _HEX_DIGITS:
            self._escape = escape
            return ""
        self._escape = None
        try:
            return self._text(chr(int(escape[1:], 16)))
        except ValueError:
            return self._text("\ufffd")

    def _text(self, text: str, *, ends: bool = False) -> str:
        text = self._surrogates.end() if ends else self._surrogates.join(text)
        if self._is_key:
            self._key += text
            return ""
        return text
