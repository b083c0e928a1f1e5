"""The scenarios with an agent of ours, against which those of libraries are measured."""

from collections.abc import AsyncIterator

from tests.executor.adapters.scenarios import QUESTION, SECRET, Adapter, Gate, serving

from taskplane.executor.agent import AgentCard, ArtifactChunk, AskInput, Change, Complete, Text, Turn


class Ours:
    card = AgentCard(name="ours", version="1")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        word, _, rest = turn.text.partition(" ")
        match word:
            case "hello":
                yield Complete(f"Hello, {rest}.")
            case "count":
                for piece in ("one ", "two ", "three"):
                    yield Text(piece)
            case "ask":
                yield AskInput(QUESTION)
            case "slow":
                yield Text("begun")
                await self._gate.passed()
                yield Complete("finished")
            case "fail":
                raise RuntimeError(SECRET)
            case "artifact":
                for number, piece in enumerate(("one ", "two ", "three")):
                    yield ArtifactChunk("r", text=piece, name="Report", append=number > 0, last=number == 2)
            case _:
                yield Complete(f"Hello, {turn.text}.")


ADAPTER = Adapter("port", serving(Ours))
