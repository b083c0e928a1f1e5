"""The frames from an executor to the process of an agent: pickled, each after its length, over a socket.

The executor sends Load once. For each run it sends Begin, then a Next for each change, then Close. The process answers
a Next with Yielded, Ended or Raised, and Close with Closed. There is one run at a time; its agent may make any number
of Calls, each answered by an Answer. The frames of the process are in `reports` and not pickled: an executor must not
unpickle data from an agent.
"""

import asyncio
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LENGTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The agent of the process: its spec and the other arguments of `load_agents`."""

    source: str
    allow_crash: bool
    path: Sequence[str]
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A run begins. `turn`: the data fields of its Turn. `method`: the method of the agent. `until`: as in Alive."""

    turn: Mapping[str, Any]
    method: str
    until: float
    request_id: str
    traceparent: str


@dataclass(frozen=True, slots=True)
class Next:
    """The executor took the change before, and wants the next one."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The executor lives, and the lease of the run is certain up to this monotonic time, which all processes share."""

    until: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`Turn.cancelled` is set."""


@dataclass(frozen=True, slots=True)
class Close:
    """The run is over: cancel its waits, and close its iterator."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the Call of this number: its result, or its exception."""

    number: int
    value: Any = None
    fault: BaseException | None = None


def framed(frame: object) -> bytes:
    """Return the bytes of a frame."""
    data = pickle.dumps(frame, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH) + data


def send(writer: asyncio.StreamWriter, frame: object) -> None:
    """Send a frame to the process, without waiting."""
    writer.write(framed(frame))


async def receive(reader: asyncio.StreamReader) -> object | None:
    """Return the next frame of the executor; None if the executor has closed the socket."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH))
        data = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return pickle.loads(data)  # type: ignore[no-any-return]
