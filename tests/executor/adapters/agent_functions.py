"""The scenarios with functions: an async generator, and a plain one that blocks its thread."""

from collections.abc import AsyncIterator, Callable, Iterator

from tests.executor.adapters.scenarios import QUESTION, SECRET, Adapter, Gate, serving

from taskplane.executor.agent import ArtifactChunk, AskInput, Change, Complete, Turn


def make(gate: Gate) -> Callable[[Turn], AsyncIterator[str | Change]]:
    async def answer(turn: Turn) -> AsyncIterator[str | Change]:
        """Answers fixed words."""
        if turn.text == "slow":
            yield "begun"
            await gate.passed()
            yield Complete("finished")
            return
        for change in quick(turn):
            yield change

    return answer


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
        case "artifact":
            for number, piece in enumerate(("one ", "two ", "three")):
                yield ArtifactChunk("r", text=piece, name="Report", append=number > 0, last=number == 2)
        case _:
            yield f"Hello, {turn.text}."


ADAPTER = Adapter("function", serving(make))
