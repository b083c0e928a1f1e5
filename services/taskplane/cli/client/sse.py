"""Server-sent events out of bytes, without I/O (the HTML standard, section 9.2.6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event with data. `id` is the last one the server gave, with this event or before; `name` is its type."""

    data: str
    id: str
    name: str


class SseDecoder:
    """Feed it the bytes of one response as they come; it gives back each event once it is complete.

    Lines end with LF, CRLF or CR and with nothing else, so JSON may hold any other separator. Comments and events
    without data are skipped. What is incomplete at the end of the stream is dropped, as the standard says.
    """

    def __init__(self) -> None:
        """At the beginning of a response."""
        self.last_id = ""
        self.retry_ms: int | None = None
        self._rest = b""
        self._data: list[str] = []
        self._name = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes, in order."""
        text = self._rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if text[end - 1 : end] == b"\r" and end == len(text):
            end = max(text[:-1].rfind(b"\n"), text[:-1].rfind(b"\r")) + 1
        self._rest = text[end:]
        lines = text[:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
        return [event for line in lines if (event := self._line(line.decode(errors="replace"))) is not None]

    def _line(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.removeprefix("\ufeff").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "event":
            self._name = value
        elif name == "retry" and value.isdecimal():
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return SseEvent("\n".join(data), self.last_id, name) if data else None
