"""The form in which JSON is written here: on one line for every reader.

JSON allows U+2028, U+2029 and U+0085 inside texts. Python's `splitlines`, and so many clients, end a line at each of
them. They are therefore escaped, as are all other line breaks.
"""

import json
from typing import Any

import orjson


def encode(value: Any) -> bytes:
    """Return a JSON value in UTF-8, on one line."""
    try:
        return escape_breaks(orjson.dumps(value))
    except orjson.JSONEncodeError:
        # Integers of over 64 bits, and halves of surrogate pairs, which only the escapes of JSON can spell.
        return json.dumps(value, separators=(",", ":")).encode()


def encode_text(value: Any, *, indent: int | None = None) -> str:
    """Return a JSON value as text, with a space after each separator; without `indent` on one line."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isascii():
        return text
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def escape_breaks(written: bytes) -> bytes:
    """Return JSON in UTF-8 with the line breaks escaped that JSON itself allows."""
    # These are the bytes of the three characters, which no other character contains.
    if written.isascii():
        return written
    if b"\xe2\x80" in written:
        written = written.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return written.replace(b"\xc2\x85", b"\\u0085")
