"""The demo agent: scripted and deterministic, so that everything a task can do can be tried and tested without a key.

The first user message of a task is its command; see `COMMANDS`. Anything else is echoed.
"""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    AskAuth,
    AskInput,
    Change,
    Complete,
    Fail,
    Policy,
    Reject,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Working,
)
from taskplane.agents.demo_card import demo_card
from taskplane.agents.demo_numbers import Number, OutOfRange, Product, read_numbers
from taskplane.agents.demo_texts import MARKDOWN, RIGHT_TO_LEFT
from taskplane.api.message_metadata import INVOCATION

CRASH_CODE: Final = 70
SLOW_STEP: Final = 0.25
SLOW_SIZE: Final = 16
# How often a rate is kept up: often enough to look even, seldom enough to be kept.
RATE_STEP: Final = 0.02
HUGE_PIECE: Final = 4096
# In the metadata of a request, which no conversation shows: the answer to a question for authentication.
CREDENTIAL: Final = "credential"
PASSWORD: Final = "open sesame"


@dataclass(frozen=True, slots=True)
class Command:
    """A command. Its arguments are the numbers after its name, or the words if it takes no numbers."""

    changes: Callable[..., AsyncIterator[Change]]
    numbers: tuple[Number, ...] = ()
    product: Product | None = None

    def run(self, name: str, rest: str) -> AsyncIterator[Change]:
        """Return the changes of the command; a rejection if its numbers are out of their range."""
        if not self.numbers:
            return self.changes(rest)
        try:
            return self.changes(*read_numbers(name, rest, self.numbers, self.product))
        except OutOfRange as error:
            return reject(str(error))


class Demo:
    """The demo agent. With `allow_crash` the commands `crash` and `block` really end and block the process."""

    routes_at_sight = True

    def __init__(self, *, allow_crash: bool = False) -> None:
        self.card = demo_card()
        self._commands = {**COMMANDS, **(HARMFUL if allow_crash else dict.fromkeys(HARMFUL, Command(not_allowed)))}

    async def route(self, turn: Turn) -> str | None:
        """Return the direct answer to `message TEXT`."""
        name, rest = _split(turn.text)
        return rest if name == "message" else None

    def policy(self, turn: Turn) -> Policy:
        """Return the policy of a command: `rerun N` may run again when its process is lost."""
        return Policy(on_orphan="rerun") if _split(turn.text)[0] == "rerun" else Policy()

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Run the command of the task's first message; answer every further message with itself."""
        first = turn.task.history[0] if turn.task is not None and turn.task.history else turn.message
        if first.metadata.fields[INVOCATION].string_value != turn.invocation_id:
            return signed_in(turn.metadata[CREDENTIAL]) if CREDENTIAL in turn.metadata else quoted(turn.text)
        name, rest = _split(turn.text)
        if name in self._commands:
            return self._commands[name].run(name, rest)
        return echo(turn.text)


async def echo(text: str) -> AsyncIterator[Change]:
    """Say the text word by word, and then as a whole."""
    yield Working()
    words = text.split(" ")
    for word in words[:-1]:
        yield Text(f"{word} ")
    yield Text(words[-1])
    yield Complete(text)


async def quoted(text: str) -> AsyncIterator[Change]:
    """Answer a further message by quoting it."""
    yield Complete(f'You said: "{text}"')


async def count(last: int, pause: int) -> AsyncIterator[Change]:
    """Count to N, one number every 0.25 s or every MS milliseconds (`count N MS`)."""
    words = [f"{number} " for number in range(1, last)] + [str(last)]
    for word in words:
        await asyncio.sleep(pause / 1000)
        yield Text(word)
    yield Complete("".join(words))


async def code(rest: str) -> AsyncIterator[Change]:
    """Say a text in Markdown with code, lists and a table, line by line."""
    for line in MARKDOWN.splitlines(keepends=True):
        yield Text(line)
        await asyncio.sleep(RATE_STEP)
    yield Complete(MARKDOWN)


async def huge(size: int) -> AsyncIterator[Change]:
    """Say N KiB of text in paragraphs of numbered lines (`huge N`)."""
    pieces: list[str] = []
    for piece in _pieces(size):
        pieces.append(piece)
        yield Text(piece)
    yield Complete("".join(pieces))


async def rtl(rest: str) -> AsyncIterator[Change]:
    """Say a text that is written from right to left, word by word."""
    async for change in echo(RIGHT_TO_LEFT):
        yield change


async def versions(rest: str) -> AsyncIterator[Change]:
    """Make an artifact in three chunks, and then a second version of it (`versions NAME`)."""
    name = rest or "Report"
    for number, text in enumerate(("# Draft\n", "First, Second, ", "Third.\n")):
        yield ArtifactChunk("report", text=text, name=name, append=number > 0, last=number == 2, mergeable=False)
        await asyncio.sleep(RATE_STEP)
    yield ArtifactChunk("report", text="# Final\nAll of it, in one piece.\n", name=name, last=True)
    yield Complete("There are two versions.")


async def tools(times: int) -> AsyncIterator[Change]:
    """Call a tool N times, and then say how often (`tools N`)."""
    for number in range(1, times + 1):
        yield ToolCall(f"call-{number}", "lookup", {"question": f"number {number}"})
        await asyncio.sleep(RATE_STEP)
        yield ToolResult(f"call-{number}", "lookup", {"answer": number * number})
    yield Complete(f"The tool was called {times} times.")


async def progress(steps: int) -> AsyncIterator[Change]:
    """Tell N lines of progress, one every 0.25 s (`progress N`)."""
    for number in range(1, steps + 1):
        yield Working(f"Step {number} of {steps}")
        await asyncio.sleep(SLOW_STEP)
    yield Complete(f"All {steps} steps are done.")


async def rate(each_second: int, seconds: int) -> AsyncIterator[Change]:
    """Stream one artifact of N chunks a second for S seconds (`rate N S`)."""
    total = each_second * seconds
    begun, index = time.monotonic(), 0
    while index < total:
        due = min(total, int((time.monotonic() - begun) * each_second) + 1)
        while index < due:
            yield _chunk(index, total, SLOW_SIZE)
            index += 1
        await asyncio.sleep(RATE_STEP)
    yield Complete(f"{total} events.")


async def signed_in(credential: object) -> AsyncIterator[Change]:
    """Complete the task if the credential is right, or else ask again."""
    if credential == PASSWORD:
        yield Complete("You are signed in.")
    else:
        yield AskAuth(f"That credential was not accepted. It is `{PASSWORD}`.")


async def chunks(count: int, size: int) -> AsyncIterator[Change]:
    """Stream one artifact of N chunks of SIZE bytes, as fast as the plane takes them (`chunks N SIZE`)."""
    for index in range(count):
        yield _chunk(index, count, size)
    yield Complete()


async def slow(count: int) -> AsyncIterator[Change]:
    """Stream one artifact of N chunks, one every 0.25 s (`slow N`)."""
    for index in range(count):
        await asyncio.sleep(SLOW_STEP)
        yield _chunk(index, count, SLOW_SIZE)
    yield Complete()


async def artifact(rest: str) -> AsyncIterator[Change]:
    """Make a text, a data and a file artifact."""
    yield Working("Making three artifacts")
    yield ArtifactChunk("text", text="A few words.", name="Words", description="A text artifact", last=True)
    yield ArtifactChunk("data", data={"answer": 42, "unit": "none"}, name="Figures", last=True)
    content = b"name,value\nanswer,42\n"
    yield ArtifactChunk("file", raw=content, name="Table", filename="answer.csv", media_type="text/csv", last=True)
    yield Complete("Three artifacts were made.")


async def tool(rest: str) -> AsyncIterator[Change]:
    """Call a tool between two texts (`tool QUESTION`)."""
    yield Text("Looking that up.")
    yield ToolCall("call-1", "lookup", {"question": rest or "the answer"})
    yield ToolResult("call-1", "lookup", {"answer": 42})
    yield Text("The answer is 42.")
    yield Complete()


async def ask(rest: str) -> AsyncIterator[Change]:
    """Ask for input."""
    yield AskInput(rest or "What is your name?")


async def auth(rest: str) -> AsyncIterator[Change]:
    """Ask for authentication."""
    yield AskAuth(rest or f"Sign in with the credential `{PASSWORD}`, or just answer here.")


async def fail(rest: str) -> AsyncIterator[Change]:
    """Raise an exception."""
    yield Working()
    raise AgentError(rest or "The demo agent was told to fail.")


async def reject(rest: str) -> AsyncIterator[Change]:
    """Reject the task."""
    yield Reject(rest or "The demo agent was told to reject this.")


async def flood(count: int) -> AsyncIterator[Change]:
    """Say N messages (`flood N`)."""
    for index in range(count):
        yield Say(f"message {index + 1} of {count}")
    yield Complete()


async def block(seconds: int) -> AsyncIterator[Change]:
    """Block the process for N seconds (`block N`)."""
    yield Working("Blocking")
    time.sleep(seconds)  # noqa: ASYNC251 - this is what it is for
    yield Complete(f"Blocked for {seconds} s.")


async def crash(rest: str) -> AsyncIterator[Change]:
    """End the process in mid-run, half a sentence after it began."""
    yield Text("About to ")
    await asyncio.sleep(SLOW_STEP)
    os._exit(CRASH_CODE)


async def not_allowed(rest: str) -> AsyncIterator[Change]:
    """Fail, since commands that harm the process are not allowed."""
    yield Fail("This command ends or blocks the whole process, which is not allowed here; the setting allow_crash is.")


_SLOW: Final = Command(slow, (Number("N", 1, 10_000),))
COMMANDS: Final[dict[str, Command]] = {
    "echo": Command(echo),
    "count": Command(count, (Number("N", 10, 10_000), Number("MS", round(SLOW_STEP * 1000), 10_000))),
    "code": Command(code),
    # A text has at most 3 MiB.
    "huge": Command(huge, (Number("N", 100, 3_000),)),
    "rtl": Command(rtl),
    "chunks": Command(
        chunks, (Number("N", 1, 100_000), Number("SIZE", 64, 1024 * 1024)), Product(128 * 1024 * 1024, "bytes")
    ),
    "slow": _SLOW,
    "rate": Command(rate, (Number("N", 100, 5_000, 1), Number("S", 5, 600)), Product(100_000, "chunks")),
    "artifact": Command(artifact),
    "versions": Command(versions),
    "tool": Command(tool),
    "tools": Command(tools, (Number("N", 3, 1_000),)),
    "progress": Command(progress, (Number("N", 8, 1_000),)),
    "ask": Command(ask),
    "auth": Command(auth),
    "fail": Command(fail),
    "reject": Command(reject),
    "flood": Command(flood, (Number("N", 10, 10_000),)),
    "rerun": _SLOW,
}
HARMFUL: Final[dict[str, Command]] = {
    "crash": Command(crash),
    "block": Command(block, (Number("N", 1, 600),)),
}
"""The commands that need `allow_crash`."""


def _pieces(size: int) -> Iterator[str]:
    """Yield so many KiB of text in pieces of some 4 KiB."""
    left = size * 1024
    gathered: list[str] = []
    length = 0
    for number in itertools.count(1):
        if not left:
            return
        line = f"Line {number} of a text of {size} KiB." + "\n" * (2 - (number % 8 > 0))
        line = line[:left]
        left -= len(line)
        gathered.append(line)
        length += len(line)
        if length >= HUGE_PIECE or not left:
            yield "".join(gathered)
            gathered.clear()
            length = 0


def _chunk(index: int, count: int, size: int) -> ArtifactChunk:
    mark = f"{index:08d}"
    text = (mark * (size // len(mark) + 1))[:size]
    name = "Chunks" if index == 0 else None
    return ArtifactChunk("chunks", text=text, name=name, append=index > 0, last=index == count - 1, mergeable=False)


def _split(text: str) -> tuple[str, str]:
    name, _, rest = text.strip().partition(" ")
    return name.lower(), rest
