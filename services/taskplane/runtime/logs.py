"""Logging, set up once per process: JSON lines, or a line a human reads on a terminal; secrets never.

Everybody logs through `logging.getLogger(__name__)`. The list `FIELDS` has the further members of a record
(passed as `extra=`); ids come from context variables that are set per call and per run, and from
the span that is current.
"""

import json
import logging
import random
import re
import sys
import time
from contextvars import ContextVar
from functools import lru_cache
from typing import Final

import orjson

from taskplane.runtime import json_lines, tracing

request_id: ContextVar[str] = ContextVar("taskplane_request_id", default="")
task_id: ContextVar[str] = ContextVar("taskplane_task_id", default="")
agent: ContextVar[str] = ContextVar("taskplane_agent", default="")

FIELDS: Final = (
    "task_id",
    "context_id",
    "method",
    "code",
    "reason",
    "ms",
    "actor",
    "agent",
    "state",
    "states",
    "generation",
    "count",
    "attempt",
    "trace_id",
)
"""Fields that a record may have by `extra=`. No other field is written. None of them has a payload or an address."""

LONGEST: Final = 32 * 1024
"""Characters that are written of a message, and of a traceback."""
_HIDDEN: Final = "[hidden]"
# Characters in which the sign of a credential is looked for before the end of a text that is too long.
_BEFORE: Final = 256
_SECRETS: Final = (
    # the password of a URL
    (re.compile(r"(?P<keep>\b[a-zA-Z][\w+.-]*://[^\s/:@]*:)[^\s@/]+(?=@)"), rf"\g<keep>{_HIDDEN}"),
    # an Authorization header, and a credential that follows its scheme
    (re.compile(r"(?i)(?P<keep>authorization['\"]?\s*[:=]\s*['\"]?)[^'\"\r\n,;}]+"), rf"\g<keep>{_HIDDEN}"),
    (re.compile(r"(?i)(?P<keep>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}"), rf"\g<keep>{_HIDDEN}"),
    # name=value and name: value, in text, JSON and query strings
    (
        re.compile(
            r"(?i)(?P<keep>(?:token|secret|password|passwd|credentials?|api[_-]?key)['\"]?\s*[:=]\s*['\"]?"
            r"|[?&]key=)[^\s'\"&,;}]+"
        ),
        rf"\g<keep>{_HIDDEN}",
    ),
)
# Every credential that is searched for follows one of these words. Most texts have none of them.
_SIGN: Final = re.compile(r"[:=]|(?:bearer|basic)\s", re.IGNORECASE)
_LEVELS: Final = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def new_request_id() -> str:
    """Return a new request id: 16 hexadecimal digits, unlikely to repeat and of no other worth."""
    return f"{random.getrandbits(64):016x}"


def redact(text: str) -> str:
    """Return the text without anything that looks like a credential."""
    if _SIGN.search(text) is None:
        return text
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _written(text: str) -> str:
    """Truncate a text for the log in the middle, then redact its credentials."""
    if len(text) <= LONGEST:
        return redact(text)
    # Whole words at the cut: the sign that one is a credential may follow it, or precede it.
    begin = text[: LONGEST // 2].rsplit(maxsplit=1)
    head = begin[0] if len(begin) > 1 else ""
    end = redact(text[-LONGEST // 2 - _BEFORE :])[_BEFORE:]
    tail = end.partition("\n")[2]
    if not tail.strip():
        tail = "".join(end.split(maxsplit=1)[1:])
    left_out = len(text) - len(head) - len(tail)
    return f"{redact(head)}\n[... about {left_out} characters left out ...]\n{tail}"


_constant: Final = lru_cache(maxsize=512)(_written)


def _message(record: logging.LogRecord) -> str:
    if record.args or not isinstance(record.msg, str) or len(record.msg) > LONGEST:
        return _written(record.getMessage())
    # A text that is the same each time, of which there are as many as there are lines in programs.
    return _constant(record.msg)


def setup(level: str = "INFO", human: bool | None = None) -> None:
    """Send the whole process's log to stderr. `human` None means: human if stderr is a terminal, else JSON lines."""
    if human is None:
        human = sys.stderr.isatty()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_HumanLines() if human else _JsonLines())
    handler.addFilter(_matters)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These log every step of their work, some with addresses.
    for noisy in ("alembic", "asyncio", "httpx", "httpcore", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def _matters(record: logging.LogRecord) -> bool:
    """Return whether to write a record. gRPC logs an error when a client leaves before it has its whole reply; that
    matters at level DEBUG only."""
    # Most processes of agents have not loaded gRPC, and so have no such records.
    aio = sys.modules.get("grpc.aio")
    if aio is None or not record.exc_info or not record.name.startswith("grpc."):
        return True
    return not isinstance(record.exc_info[1], aio.InternalError) or logging.getLogger().isEnabledFor(logging.DEBUG)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = {}
    if request := request_id.get():
        found["request_id"] = request
    if task := task_id.get():
        found["task_id"] = task
    if name_of_agent := agent.get():
        found["agent"] = name_of_agent
    if "trace_id" not in record.__dict__ and (trace := tracing.trace_id()):
        found["trace_id"] = trace
    for name in FIELDS:
        value = record.__dict__.get(name)
        if value not in (None, ""):
            found[name] = redact(value) if isinstance(value, str) and _SIGN.search(value) else value
    return found


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = _written(self.formatException(record.exc_info))
        try:
            return json_lines.escape_breaks(orjson.dumps(line, default=str)).decode(errors="replace")
        except orjson.JSONEncodeError:
            # Half of a surrogate pair, which only the escapes of JSON can spell.
            return json.dumps(line, default=str)


class _HumanLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        colour = _LEVELS.get(record.levelname, "0")
        text = f"{clock} \x1b[{colour}m{record.levelname:7}\x1b[0m {_message(record)}"
        text += "".join(f"  \x1b[2m{name}=\x1b[0m{value}" for name, value in _fields(record).items())
        if record.exc_info:
            text += "\n" + _written(self.formatException(record.exc_info))
        return text
