"""Any Python value as JSON, and JSON in protobuf and back."""

import dataclasses
import decimal
import enum
import fractions
import json
import math
import uuid
from collections import OrderedDict, UserDict, deque
from datetime import UTC, date, datetime, time, timedelta
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.json_lines import encode
from taskplane.runtime.json_reading import parse, parse_kept, parse_lenient
from taskplane.runtime.json_values import to_json
from taskplane.runtime.plain_json import plain
from taskplane.runtime.struct_values import Digits, converted_paths, mark_converted, to_value


class Color(enum.Enum):
    RED = "red"
    BOTH = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Inner(BaseModel):
    at: datetime
    anything: Any = None


@dataclasses.dataclass
class Point:
    x: int
    color: Color


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError

    def __contains__(self, one: object) -> bool:
        return False


class Scalar:
    """As those of numpy are."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def tolist(self) -> Any:
        return self._value


class Index:
    def __index__(self) -> int:
        return 7


class Unserializable(BaseModel, arbitrary_types_allowed=True):
    one: Any


class Pair(NamedTuple):
    a: int
    b: int


NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


VALUES: list[tuple[Any, Any]] = [
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        ("a\0b\ud83dc", "a\ufffdb\ufffdc"),
        ([math.nan, math.inf, -math.inf], [None, None, None]),
        ({7: "a", None: "b", True: "c", 1.5: "d", Color.RED: "e", (1, 2): "f", "\0": "g"},
         {"7": "a", "null": "b", "true": "c", "1.5": "d", "red": "e", "[1, 2]": "f", "\ufffd": "g"}),
        ([Color.RED, Color.BOTH, Level.LOW], ["red", [1, 2], 1]),
        ([NOW, date(2030, 1, 2), time(3, 4)], ["2030-01-02T03:04:05+00:00", "2030-01-02", "03:04:00"]),
        ([timedelta(seconds=90), timedelta(milliseconds=1500)], ["PT90S", "PT1.5S"]),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([decimal.Decimal("1.10"), fractions.Fraction(1, 2), PurePosixPath("/a")], ["1.10", 0.5, "/a"]),
        ([b"\xff\x00", bytearray(b"a"), memoryview(b"a")], ["/wA=", "YQ==", "YQ=="]),
        ([{3, 1, 2}, frozenset("a"), (1,), deque([1]), range(2), {"a": 1}.keys()],
         [[1, 2, 3], ["a"], [1], [1], [0, 1], ["a"]]),
        (Point(1, Color.RED), {"x": 1, "color": "red"}),
        (Inner(at=NOW, anything={1}), {"at": "2030-01-02T03:04:05Z", "anything": [1]}),
        (Unserializable(one=SimpleNamespace(a=1)), {"one": "namespace(a=1)"}),
        ([OrderedDict([("a", 1)]), UserDict(a=1), MappingProxyType({"a": 1})], [{"a": 1}] * 3),
        (Pair(1, 2), [1, 2]),
        ([Scalar([1, 2]), Scalar(1.5), Index(), int], [[1, 2], 1.5, 7, "<class 'int'>"]),
        (ValueError("no"), "no"),
        (a2a.Part(text="a"), {"text": "a"}),
        (Struct(), {}),
        (Broken(), "<Broken>"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shown"), VALUES, ids=lambda one: type(one).__name__)
def test_a_python_value_is_json(value: Any, shown: Any) -> None:
    """P3."""
    assert plain(value) == shown
    json.dumps(plain(value), allow_nan=False).encode()


def test_a_value_inside_itself_or_far_too_deep_ends() -> None:
    own: dict[str, Any] = {}
    own["a"] = [own]
    assert plain(own) == {"a": ["..."]}
    twice = [1]
    assert plain([twice, twice]) == [[1], [1]]
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    to_value(plain(deep))
    assert plain(10**6000) == "1" + "0" * 6000


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.datetimes(),
                    lambda one: st.lists(one) | st.dictionaries(st.text() | st.integers(), one)))  # fmt: skip
def test_anything_is_kept_and_reads_back_the_same_each_time(value: Any) -> None:
    first, _ = to_value(plain(value))
    again, _ = to_value(to_json(first))
    assert to_json(again) == to_json(first) == json.loads(encode(to_json(first)))


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("10000000000000000", b"10000000000000000"),
        ("1e16", b"10000000000000000"),
        ("9007199254740992", b"9007199254740992"),
        ("100000000000000000000", b"100000000000000000000"),
        ("-100000000000000000000", b"-100000000000000000000"),
        ("1.0", b"1"),
        ("-0.0", b"0"),
        ("0.1", b"0.1"),
        ("1e21", b"1e+21"),
        ("653247040368672769", b'"653247040368672769"'),
        ("9007199254740993", b'"9007199254740993"'),
        ("-9223372036854775809", b'"-9223372036854775809"'),
        ("123456789012345678901", b'"123456789012345678901"'),
        ("1" * 400, b'"' + b"1" * 400 + b'"'),
        ("7" * 5000, b'"' + b"7" * 5000 + b'"'),
        ("1e400", b'"1e400"'),
    ],
)
def test_a_number_is_written_as_it_is_or_as_its_text(number: str, written: bytes) -> None:
    for read in (parse(number.encode()), parse_lenient(number.encode()), parse_kept(number)):
        assert encode(to_json(to_value(read)[0])) == written


def test_numbers_that_became_texts_are_listed_by_their_paths() -> None:
    big = 2**53 + 1
    value, paths = to_value({"a": [1, big, {"b": big}], "c": Digits("1e400"), "d": 2**60}, "parts[0].data")
    assert paths == ["parts[0].data.a[1]", "parts[0].data.a[2].b", "parts[0].data.c"]
    assert to_json(value) == {"a": [1, str(big), {"b": str(big)}], "c": "1e400", "d": 2**60}
    metadata = Struct()
    mark_converted(metadata, paths)
    mark_converted(metadata, paths)
    assert to_json(metadata.fields["taskplane.dev/converted"]) == paths
    mark_converted(metadata, list(converted_paths([big] * 1000, "parts[1].data")))
    assert to_json(metadata.fields["taskplane.dev/converted"]) == [*paths, "parts[1].data"]


@pytest.mark.parametrize("body", [b"NaN", b'["\\ud800"]', b'"\xff"', b"{", b"[1e]", b"-"])
def test_values_that_json_lacks_are_refused_unless_lenient(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(body)


def test_a_lenient_reader_accepts_the_json_of_runtimes() -> None:
    body = b'{"a": [NaN, Infinity, -Infinity], "b": "x\\ud800y\\ud83d\\ude00\\\\ud800", "c": "\xff\\u0000"}'
    assert parse_lenient(body) == {"a": [None] * 3, "b": "x\ufffdy\U0001f600\\ud800", "c": "\ufffd\0"}
    assert parse_kept('{"a": ["\\ud800", NaN]}') == {"a": ["\ud800", None]}
