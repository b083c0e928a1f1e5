"""The values in the arguments of a tool call, read while the JSON arrives in pieces that may be cut anywhere."""

import re
from collections.abc import Iterator
from typing import Final

from taskplane.agents.surrogates import Surrogates

_PLAIN: Final = re.compile(r'[^"\\]*')
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_HEX_DIGITS: Final = 4


class ArgumentText:
    """One JSON object. Each character is read once, so the cost of a piece does not grow with the text before it.

    Keys may come in any order. Texts are given decoded, other values as JSON; null is left out.
    """

    def __init__(self) -> None:
        self.complete = False
        # False if the JSON turns out not to be an object.
        self.is_object = True
        self._depth = 0
        self._in_string = False
        # True while a key of the object itself is expected or read; False for a value.
        self._is_key = False
        self._key = ""
        # The characters so far of a number, or of a name such as null, that is a value of the object itself.
        self._literal = ""
        self._escape: str | None = None
        self._surrogates = Surrogates()

    def feed(self, piece: str) -> Iterator[tuple[str, str]]:
        """Read a piece; yield the next pieces of the values of the object with their keys."""
        at = 0
        while at < len(piece):
            key = None if self._is_key else self._key
            if not self._in_string:
                text = self._structure(piece[at])
                at += 1
            elif self._depth > 1:
                at, text = self._inner_string(piece, at)
            else:
                at, text = self._string(piece, at)
            if text and key is not None:
                yield key, text

    def _structure(self, character: str) -> str:
        """Return the part of a value from a character between strings."""
        if self._depth == 1 and character in ",}]":
            text = "" if self._literal == "null" else self._literal
            self._literal = ""
            if character == ",":
                self._is_key, self._key = True, ""
            else:
                self._depth = 0
                self.complete = True
            return text
        inner = self._depth > 1
        if character == '"':
            self._in_string = True
        elif character in "{[":
            if self._depth == 0:
                self._is_key = self.is_object = character == "{"
            self._depth += 1
            return character if self._depth > 1 else ""
        elif character in "}]":
            self._depth -= 1
        elif not inner and character == ":":
            self._is_key = False
        elif not (inner or character.isspace()):
            self._literal += character
        return character if inner else ""

    def _inner_string(self, piece: str, at: int) -> tuple[int, str]:
        """Read a string inside a value; return it undecoded."""
        if self._escape is not None:
            self._escape = None
            return at + 1, piece[at]
        found = _PLAIN.match(piece, at)
        end = found.end() if found else at
        if end < len(piece):
            if piece[end] == "\\":
                self._escape = ""
            else:
                self._in_string = False
            end += 1
        return end, piece[at:end]

    def _string(self, piece: str, at: int) -> tuple[int, str]:
        """Read a key, or a text value; return it decoded."""
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
