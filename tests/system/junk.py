"""Values that no client of ours sends, and JSON that no library writes."""

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final


class Raw(bytes):
    """JSON, or nearly, that is sent unchanged."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object, where several may have one name."""


def dumped(value: Any) -> bytes:
    """A value as JSON."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, dict):
        value = Pairs(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if isinstance(value, Pairs):
        return b"{" + b",".join(dumped(name) + b":" + dumped(each) for name, each in value) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join([dumped(each) for each in value]) + b"]"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value).encode()


def nested(levels: int) -> Raw:
    """An object of so many levels."""
    return Raw(b'{"a":' * levels + b"1" + b"}" * levels)


TEXTS: Final[Sequence[str]] = (
    *("", " ", "\0", "a\0b", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\x85", "\ufeff", "\u2028", "\u202eabc\u2066"),
    *(
        "\U0001f4a5",
        "\u0430\u0308",
        "e\u0301" * 200,
        "%",
        "%00",
        "_",
        "*",
        "'",
        '"',
        "\\",
        "';--",
        "${x}",
        "{{x}}",
        "<b>",
    ),
    *("..", "../../etc", "/", "a/b", "-1", "0", "1" * 40, "1e9", "true", "null", "NaN", "\u0661\u0662", "x" * 255),
    *("x" * 256, "x" * 5_000, "TASK_STATE_NONE", "ROLE_NONE", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z"),
    *("+99999-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "1969-12-31T23:59:59.999999999+14:00", "!!!", "A", "data:,x"),
)

JUNK: Final[Sequence[Any]] = (
    *TEXTS,
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1),
    *(
        Raw(b"1e400"),
        Raw(b"NaN"),
        Raw(b"-Infinity"),
        Raw(b"9" * 5_000),
        Raw(b"1." + b"9" * 5_000),
        Raw(b"01"),
        Raw(b"-"),
    ),
    *(
        Raw(b'"\\ud800"'),
        Raw(b'"\\udc00\\ud800"'),
        Raw(b'"\xff\xfe"'),
        Raw(b'"\xed\xa0\x80"'),
        Raw(b'"\x01"'),
        Raw(b"'a'"),
    ),
    *([], {}, [[]], [None], [{}], {"": ""}, {"\0": 1}, {"a": Raw(b'"\\u0000"')}, "x" * 70_000, "\u202e" * 3_000),
    *(
        nested(10),
        nested(23),
        nested(25),
        nested(40),
        nested(63),
        nested(100),
        Raw(b"[" * 5_000),
        Raw(b"[" * 63 + b"]" * 63),
    ),
    *(Raw(b"[" + b"0," * 150_000 + b"0]"), "x" * 3_000_000),
    *(Raw(b"[" + b"0," * 20_000 + b"0]"), Raw(b"[" + b"{}," * 200 + b"{}]"), Raw(b'{"a":1,"a":2,"a":[]}')),
    *({f"k{at}": at for at in range(300)}, ["x"] * 101, [{"text": "x"}] * 101),
)

# Elements of a list to put faults into.
_LOOKED_AT: Final = 20


def junk(random: Random) -> Any:
    """Any of `JUNK`; a copy, since a second fault may change the value."""
    return deepcopy(random.choice(JUNK))


def changed(random: Random, body: Any) -> Any:
    """Put a fault into a JSON value, which may be changed in place."""
    places: list[tuple[Any, Any]] = []
    _walk(body, places)
    if not places:
        return junk(random)
    within, key = random.choice(places)
    fault = random.randrange(10)
    if fault < 6:
        within[key] = junk(random)
    elif fault == 6:
        del within[key]
    elif fault == 7 and isinstance(within, dict):
        within["" if random.random() < 0.2 else key + random.choice(TEXTS)] = junk(random)
    elif fault == 8:
        within[key] = [within[key]] * random.choice((0, 1, 2, 101, 1_001))
    elif isinstance(within[key], dict):
        within[key] = Pairs([*within[key].items(), *[(name, junk(random)) for name in within[key]]])
    elif isinstance(within[key], str):
        within[key] += random.choice(TEXTS)
    else:
        within[key] = {"a": within[key]}
    return body


def _walk(value: Any, places: list[tuple[Any, Any]]) -> None:
    """Gather each member and each element, with its container."""
    if isinstance(value, Pairs) or not isinstance(value, dict | list):
        return
    within: Any = value  # pyright: ignore[reportUnknownVariableType]
    for key in list(within) if isinstance(value, dict) else range(min(len(within), _LOOKED_AT)):
        places.append((within, key))
        _walk(within[key], places)
