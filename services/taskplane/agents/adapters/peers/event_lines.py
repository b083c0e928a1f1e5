"""The lines and events of an event stream, as the HTML standard defines them, each limited in size.

httpx ends a line also at U+2028, U+2029, U+0085 and other characters. JSON may contain these three unescaped; then the
SDK would stop reading in the middle of a message.
"""

from collections.abc import Callable, Iterator
from typing import Final

from taskplane.agents.adapters.peers.refused import too_large

LONGEST_EVENT: Final = 8 * 2**20
"""Maximum number of characters of an event. It equals the maximum number of bytes of a request to this plane."""
_DATA: Final = "data"


class Lines:
    """Splits a text that arrives in pieces into lines, without line ends."""

    def __init__(self, limit: int = LONGEST_EVENT) -> None:
        """`limit`: maximum number of characters of a line."""
        self._limit = limit
        # The pieces of the line that has not ended, and their length.
        self._open: list[str] = []
        self._length = 0
        # The last character was a CR, which an LF may follow.
        self._held = False

    def feed(self, text: str) -> Iterator[str]:
        """Yield the complete lines. A line with a CR at the end of `text` comes with the next call. RefusedAnswer: a
        line is too long."""
        if self._held:
            text = "\r" + text
        self._held = text.endswith("\r")
        if self._held:
            text = text[:-1]
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        first, *more = text.split("\n")
        self._add(first)
        for next_line in more:
            yield "".join(self._open)
            self._open, self._length = [], 0
            self._add(next_line)

    def end(self) -> Iterator[str]:
        """Yield the line that is left: an unfinished line, or a line with a CR as the last character."""
        last = "".join(self._open)
        if last or self._held:
            yield last

    def _add(self, piece: str) -> None:
        self._open.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            raise too_large("a line", self._limit)


class Events:
    """Rewrites the events of a stream, line by line."""

    def __init__(self, data: Callable[[str], str], limit: int = LONGEST_EVENT) -> None:
        """`data`: returns the data of an event as one line, or "" to leave the event out. `limit`: maximum number of
        characters in the data of one event."""
        self._form = data
        self._limit = limit
        self._data: list[str] = []
        self._length = 0

    def feed(self, line: str) -> Iterator[str]:
        """Yield the output lines for one input line, without comments. RefusedAnswer: an event is too large."""
        if not line:
            yield from self.end()
            return
        name, _, value = line.partition(":")
        if name != _DATA:
            if name:
                yield line
            return
        self._length += len(value)
        if self._length > self._limit:
            raise too_large("an event", self._limit)
        self._data.append(value.removeprefix(" "))

    def end(self) -> Iterator[str]:
        """Yield the lines of the event that ends here. Also for the end of a stream: its last event may lack its empty
        line."""
        data, self._data, self._length = self._data, [], 0
        if formed := self._form("\n".join(data)) if data else "":
            yield f"{_DATA}: {formed}"
        yield ""
