"""A long session, made as a file that the import takes: one real turn, over and over under other ids."""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

# Between one turn and the next one.
_APART: Final = timedelta(seconds=7)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def repeated(exported: bytes, turns: int) -> bytes:
    """The export of a session with one turn that is a task, as that of one with `turns` of them."""
    lines: list[Any] = [orjson.loads(line) for line in exported.splitlines()]
    entries = [line for line in lines if line["type"] == "entry"]
    tasks = [line for line in lines if line["type"] in ("task", "event")]
    header = lines[0]
    session = header["session"]
    count = turns * len(entries)
    session |= {"entryCount": str(count), "version": str(count + 1), "title": "a long session"}
    turn_ids = _ids(lines)
    written = [_line(header)]
    for number in range(turns):
        for place, entry in enumerate(entries, 1):
            entry["entry"]["seq"] = str(number * len(entries) + place)
        written += _renamed(map(_line, entries), turn_ids, number)
    texts = [_line(line) for line in tasks]
    for number in range(turns):
        written += _renamed(iter(texts), turn_ids, number)
    events = turns * sum(line["type"] == "event" for line in tasks)
    whole = b"".join(written)
    end = {"type": "end", "entries": count, "tasks": turns, "events": events}
    return whole + _line(end | {"sha256": hashlib.sha256(whole).hexdigest()})


def _ids(lines: list[Any]) -> list[str]:
    """What names the turn, its task and its first message; every other id is made of them."""
    (task,) = (line["task"] for line in lines if line["type"] == "task")
    first = task["task"]["history"][0]
    return [task["uid"], task["id"], first["messageId"], first["metadata"]["kagent_invocation_id"]]


def _renamed(lines: Iterator[bytes], ids: list[str], number: int) -> Iterator[bytes]:
    new = {one: hashlib.sha256(f"{number}:{one}".encode()).hexdigest()[:32] for one in ids}
    for line in lines:
        text = line.decode()
        for old, other in new.items():
            text = text.replace(old, other)
        yield _TIME.sub(lambda found: _later(found[0], number), text).encode()


def _later(time: str, number: int) -> str:
    at = datetime.fromisoformat(time.removesuffix("Z")) + number * _APART
    return at.isoformat(timespec="microseconds") + "Z"


def _line(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) + b"\n"
