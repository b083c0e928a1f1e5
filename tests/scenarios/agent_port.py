"""The scenarios with an agent of the port, the reference for agents of libraries."""

from collections.abc import AsyncIterator

from tests.scenarios.script import QUESTION, SECRET, Gate, rerun

from taskplane.agents.agent import Agent, AgentCard, ArtifactChunk, AskInput, Change, Complete, Text, Turn


class Ours:
    card = AgentCard(name="ours", version="1")

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
                await Gate(rest).passed()
                yield Complete("finished")
            case "fail":
                raise RuntimeError(SECRET)
            case "artifact":
                yield ArtifactChunk("r", text="one ", name="Report")
                await Gate(rest).passed()
                yield ArtifactChunk("r", text="two ", append=True)
                yield ArtifactChunk("r", text="three", append=True, last=True)
            case _:
                yield Complete(f"Hello, {turn.text}.")


agent = Ours


def again() -> Agent:
    return rerun(Ours())
