"""Agents with behaviour given by a test."""

import asyncio
from collections.abc import AsyncIterator, Callable

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Policy, Turn

Script = Callable[[Turn], AsyncIterator[Change]]


class Scripted:
    """Runs its script; remembers its turns."""

    def __init__(self, script: Script, *, policy: Policy | None = None) -> None:
        self.card = AgentCard(name="scripted", version="1")
        self.turns: list[Turn] = []
        self._script = script
        self._policy = policy or Policy()

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.turns.append(turn)
        return self._script(turn)

    def policy(self, turn: Turn) -> Policy:
        return self._policy


class Stepped(Scripted):
    """Begins an artifact at `go`, and completes it on a signal of the test; answers any other text at once."""

    def __init__(self) -> None:
        super().__init__(self._step)
        self._ends = asyncio.Event()

    def end(self) -> None:
        """Let the run end."""
        self._ends.set()

    async def _step(self, turn: Turn) -> AsyncIterator[Change]:
        if turn.text != "go":
            yield Complete(f'You said: "{turn.text}"')
            return
        yield ArtifactChunk("a", text="begun, ")
        await self._ends.wait()
        yield ArtifactChunk("a", text="ended", append=True, last=True)
        yield Complete()
