"""A parser of server-sent events (the HTML standard, section 9.2.6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SseEvent:
    """An event with data. `id` is the last id that the server sent, with this event or before; `name` is the event's
    type."""

    data: str
    id: str
    name: str


class SseDecoder:
    """A parser of the bytes of one response.

    Lines end with LF, CRLF or CR and with nothing else, so JSON may contain any other separator. Comments and events
    without data are skipped. An incomplete event at the end of the stream is dropped, as the standard demands.
    """

    def __init__(self) -> None:
        self.last_id = ""
        self._rest = b""
        self._data: list[str] = []
        self._name = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes, in order."""
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
        return None

    def _dispatch(self) -> SseEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return SseEvent("\n".join(data), self.last_id, name) if data else None
