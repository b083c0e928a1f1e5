"""Agents that a test steers through files, from another process: `--agent tests.system.steered:...`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Turn


class Hold:
    """A file that is there as long as an agent holds it. Once it has let go, one beside it says `told` or `not told`.

    Told means that the agent had been told to stop.
    """

    def __init__(self, name: str | Path) -> None:
        self._file = Path(name)
        self._after = self._file.with_suffix(".released")

    @property
    def holder(self) -> str:
        """Who holds it; empty: nobody."""
        return self._file.read_text() if self._file.exists() else ""

    @property
    def released(self) -> str:
        """How it was let go; empty: it was not."""
        return self._after.read_text() if self._after.exists() and not self._file.exists() else ""

    def take(self, holder: str) -> None:
        self._file.write_text(holder)

    def release(self, *, told: bool) -> None:
        self._after.write_text("told" if told else "not told")
        self._file.unlink()


class Holding:
    """Holds the file that the message names until it is stopped, for ever. One named `stubborn` makes it answer its end
    with a completion."""

    card = AgentCard(name="holding", description="Holds a file.", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """One chunk, and then nothing."""
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
            hold.release(told=turn.cancelled.is_set())


class Question:
    """A message that a router thinks about, and the file with its answer."""

    def __init__(self, name: str | Path) -> None:
        self._file = Path(name)
        self._asked = self._file.with_suffix(".asked")

    @property
    def asked(self) -> bool:
        """Whether anybody thinks about it."""
        return self._asked.exists()

    @property
    def answer(self) -> str | None:
        """None: there is none yet. Empty: make a task of it."""
        return self._file.read_text() if self._file.exists() else None

    def ask(self) -> None:
        self._asked.touch()

    def settle(self, answer: str) -> None:
        # Whole at once: whoever looks meanwhile must not take an empty file for an answer.
        written = self._file.with_suffix(".written")
        written.write_text(answer)
        written.rename(self._file)


class Hesitant:
    """Thinks about a message until the file that it names has an answer."""

    card = AgentCard(name="hesitant", description="Answers when it is told to.", version="1")

    async def route(self, turn: Turn) -> str | None:
        """What the file says."""
        question = Question(turn.text)
        question.ask()
        while (answer := question.answer) is None:
            await asyncio.sleep(0.01)
        return answer or None

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """The task."""
        yield Complete("made a task of it")
