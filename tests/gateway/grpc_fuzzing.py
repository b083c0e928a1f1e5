"""Random calls over gRPC from a seed: messages with junk in their fields, with faults in their bytes, and odd
metadata."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from tests.system.junk import JUNK, TEXTS

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.operations import Stream
from taskplane.gateway.bindings.grpc import SERVICES
from taskplane.gateway.bindings.grpc_service import Method
from taskplane.runtime.services import MAX_REQUEST

_NUMBERS: Final = (0, 1, -1, 2, 7, 100, 2**31 - 1, -(2**31))
_VERSIONS: Final = ("1.0", "0.3", "1.0.1", "9.9", "x", "", "1" * 300)
_LONGER: Final = 1_500
# Tags, groups and lengths that no library writes.
_FRAGMENTS: Final = (
    *(b"\xff\xff\xff\xff\x0f", b"\x00", b"\x07", b"\x0a", b"\x0a\xff\xff\xff\xff\x07", b"\x0a\x02\xff\xfe"),
    *(b"\xc2\x3e\x04lost", b"\xc0\x3e\x01", b"\x9b\x06" * 40 + b"\x9c\x06" * 40, b"\x9b\x06" * 300, b"\x0b\x0c"),
)


@dataclass
class Case:
    """A call: its path, the bytes of its request, and its metadata."""

    number: int
    path: str
    streams: bool
    sends: bool
    body: bytes
    metadata: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Calls:
    """The calls of one seed, by number. `ids` are those of tasks that exist."""

    def __init__(self, seed: str, ids: Sequence[str]) -> None:
        self._seed = seed
        self._ids = ids

    def make(self, number: int) -> Case:
        """Make a call: the same for the same seed and number."""
        return _Maker(Random(f"{self._seed}-{number}"), self._ids).make(number)


class _Maker:
    def __init__(self, random: Random, ids: Sequence[str]) -> None:
        self._random = random
        self._texts = (*ids, *(f"tasks/{each}" for each in ids), *TEXTS)

    def make(self, number: int) -> Case:
        random = self._random
        service = random.choice(SERVICES)
        name, method = random.choice(list(service.methods.items()))
        message = self._valid(method)
        if random.random() < 0.6:
            self._fill(message, 0.15, 4)
        body = message.SerializeToString()
        for _ in range(random.choice((0, 0, 1, 1, 2))):
            body = self._damaged(body)
        operation = method.operation
        path = f"/{service.package}.A2AService/{name}"
        return Case(number, path, isinstance(operation, Stream), operation.sends, body, self._metadata())

    def _valid(self, method: Method) -> Message:
        """A request that is carried out, or refused since what it names does not exist."""
        message: Any = method.request()
        words = self._random.choice(("hello", "message hi", "ask", "chunks 3 2", "echo x"))
        if isinstance(message, a2a.SendMessageRequest):
            message.message.CopyFrom(a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text=words)]))
        elif isinstance(message, old.SendMessageRequest):
            message.request.CopyFrom(old.Message(message_id="m", role=old.ROLE_USER, content=[old.Part(text=words)]))
            message.configuration.blocking = self._random.random() < 0.5
        made: Message = message
        return made

    def _fill(self, message: Any, part: float, depth: int) -> None:
        """Put junk into some of the fields."""
        random = self._random
        for one in message.DESCRIPTOR.fields:
            if random.random() >= part:
                continue
            if one.message_type is None:
                if one.is_repeated:
                    getattr(message, one.name).extend(self._scalar(one) for _ in range(self._length()))
                else:
                    setattr(message, one.name, self._scalar(one))
            elif depth:
                inner = getattr(message, one.name)
                if not one.is_repeated:
                    self._fill_inner(inner, depth)
                elif not one.message_type.GetOptions().map_entry:
                    for _ in range(self._length()):
                        self._fill_inner(inner.add(), depth)

    def _fill_inner(self, inner: Any, depth: int) -> None:
        random = self._random
        inner.SetInParent()
        if isinstance(inner, Timestamp):
            inner.seconds, inner.nanos = random.choice((0, 2**62, -(2**62), 10**12)), random.choice((0, -7, 2**31 - 1))
        elif isinstance(inner, Struct):
            for _ in range(random.choice((1, 1, 3))):
                self._value(inner.fields[random.choice(self._texts)], depth)
        elif isinstance(inner, Value):
            self._value(inner, depth)
        else:
            self._fill(inner, 0.5, depth - 1)

    def _value(self, value: Value, depth: int) -> None:
        random = self._random
        junk = random.choice(JUNK)
        if depth and random.random() < 0.3:
            for _ in range(random.choice((1, 2, 40))):
                value.list_value.values.add()
            self._value(value.list_value.values[0], depth - 1)
        elif random.random() < 0.2:
            value.number_value = random.choice((float("nan"), float("inf"), -0.0, 1e308, 2.0**60))
        elif isinstance(junk, str):
            value.string_value = junk.encode("utf-8", "replace").decode()
        else:
            value.bool_value = True

    def _length(self) -> int:
        return self._random.choice((0, 1, 1, 2, 2, 3, 110))

    def _scalar(self, one: Any) -> Any:
        random = self._random
        if one.type == one.TYPE_STRING:
            return random.choice(self._texts).encode("utf-8", "replace").decode()
        if one.type == one.TYPE_BYTES:
            return random.choice((b"", b"\0", b"\xff\xfe", b"x" * 3_000))
        if one.type == one.TYPE_BOOL:
            return random.random() < 0.5
        if one.type == one.TYPE_ENUM:
            return random.choice((0, 1, 2, 3, 9, 99))
        return random.choice(_NUMBERS)

    def _damaged(self, body: bytes) -> bytes:
        random, content = self._random, bytearray(body)
        fault = random.randrange(9)
        at = random.randrange(len(content) + 1)
        if fault == 0:
            del content[at:]
        elif fault == 1 and content:
            content[at - 1] = random.randrange(256)
        elif fault in (2, 3):
            content[at:at] = random.choice(_FRAGMENTS)
        elif fault in (4, 5):
            content += random.choice(_FRAGMENTS)
        elif fault == 6:
            content += bytes(content)
        elif fault == 7:
            content[:] = random.randbytes(random.choice((1, 7, 90, _LONGER)))
        elif random.random() < 0.1:
            # An unknown field that makes the request as large as it may be, or larger.
            length = random.choice((MAX_REQUEST - 70_000, MAX_REQUEST + 1))
            content += b"\xc2\x3e" + _varint(length) + bytes(length)
        return bytes(content)

    def _metadata(self) -> list[tuple[str, str]]:
        random = self._random
        found: list[tuple[str, str]] = []
        if random.random() < 0.2:
            found.append(("a2a-version", random.choice(_VERSIONS)))
        for name in ("last-event-id", "idempotency-key", "if-match", "a2a-extensions", "x-request-id", "traceparent"):
            if random.random() < 0.05:
                value = random.choice(self._texts)
                found.append((name, "".join(each for each in value if " " <= each <= "~")))
        return found


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])
