"""The scenarios with an async generator function."""

from collections.abc import AsyncIterator, Iterator

from tests.scenarios.script import QUESTION, SECRET, Gate, rerun

from taskplane.agents.agent import Agent, ArtifactChunk, AskInput, Change, Complete, Turn


async def agent(turn: Turn) -> AsyncIterator[str | Change]:
    """Answers fixed words."""
    word, _, rest = turn.text.partition(" ")
    match word:
        case "slow":
            yield "begun"
            await Gate(rest).passed()
            yield Complete("finished")
        case "artifact":
            yield first()
            await Gate(rest).passed()
            for chunk in others():
                yield chunk
        case _:
            for change in quick(turn):
                yield change


def quick(turn: Turn) -> Iterator[str | Change]:
    word, _, rest = turn.text.partition(" ")
    match word:
        case "hello":
            yield f"Hello, {rest}."
        case "count":
            yield from ("one ", "two ", "three")
        case "ask":
            yield AskInput(QUESTION)
        case "fail":
            raise RuntimeError(SECRET)
        case _:
            yield f"Hello, {turn.text}."


def first() -> ArtifactChunk:
    return ArtifactChunk("r", text="one ", name="Report")


def others() -> Iterator[ArtifactChunk]:
    yield ArtifactChunk("r", text="two ", append=True)
    yield ArtifactChunk("r", text="three", append=True, last=True)


def again() -> Agent:
    return rerun(agent)
