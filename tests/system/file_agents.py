"""Agents that a test controls through files, from another process: `--agent tests.system.file_agents:...`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Turn


class Hold:
    """A file that exists as long as an agent holds it. After the release, a file beside it has `cancelled` or `not
    cancelled`: whether the agent saw the cancel event of its turn."""

    def __init__(self, name: str | Path) -> None:
        self._file = Path(name)
        self._after = self._file.with_suffix(".released")

    @property
    def holder(self) -> str:
        """The task that holds the file; empty: none."""
        return self._file.read_text() if self._file.exists() else ""

    @property
    def released(self) -> str:
        """The text of the release; empty: not released."""
        return self._after.read_text() if self._after.exists() and not self._file.exists() else ""

    def take(self, holder: str) -> None:
        self._file.write_text(holder)

    def release(self, *, cancelled: bool) -> None:
        self._after.write_text("cancelled" if cancelled else "not cancelled")
        self._file.unlink()


class Holding:
    """Holds the file that the message names until it is stopped. With a file named `stubborn` it answers its end with a
    completion."""

    card = AgentCard(name="holding", description="Holds a file.", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Yields one chunk, and then waits."""
        hold = Hold(turn.text)
        hold.take(turn.task_id)
        try:
            yield ArtifactChunk("a", text="begun")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not turn.text.endswith("stubborn"):
                raise
            yield Complete("I am done all the same.")
        finally:
            hold.release(cancelled=turn.cancelled.is_set())


class Question:
    """A message that a router thinks about, and the file with its answer."""

    def __init__(self, name: str | Path) -> None:
        self._file = Path(name)
        self._asked = self._file.with_suffix(".asked")

    @property
    def asked(self) -> bool:
        """Whether an agent thinks about the message."""
        return self._asked.exists()

    @property
    def answer(self) -> str | None:
        """None: no answer yet. Empty: make a task."""
        return self._file.read_text() if self._file.exists() else None

    def ask(self) -> None:
        self._asked.touch()

    def decide(self, answer: str) -> None:
        # In one step: a reader must not take an empty file for an answer.
        written = self._file.with_suffix(".written")
        written.write_text(answer)
        written.rename(self._file)


class Hesitant:
    """Thinks about a message until the file that it names has an answer."""

    card = AgentCard(name="hesitant", description="Answers on command.", version="1")

    async def route(self, turn: Turn) -> str | None:
        """Returns the content of the file."""
        question = Question(turn.text)
        question.ask()
        while (answer := question.answer) is None:
            await asyncio.sleep(0.01)
        return answer or None

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """The task."""
        yield Complete("made a task of it")
