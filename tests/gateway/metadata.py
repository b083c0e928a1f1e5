"""The metadata of a gRPC call, in the place of the headers of an HTTP request."""

from collections.abc import Mapping


class Metadata:
    """The pairs of name and value that a client sent."""

    query: Mapping[str, str] = {}

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self._pairs = pairs

    def raw(self, name: bytes) -> bytes:
        return self.header(name).encode()

    def header(self, name: bytes) -> str:
        return dict(self._pairs).get(name.decode(), "")

    def count(self, name: bytes) -> int:
        return [each for each, _ in self._pairs].count(name.decode())

    def headers(self, *names: bytes) -> list[str]:
        values = [value for key, value in self._pairs if key.encode() in names]
        return [element.strip() for value in values for element in value.split(",")]
