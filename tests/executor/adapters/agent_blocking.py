"""The scenarios with a plain generator function, which blocks its thread."""

from collections.abc import Callable, Iterator

from tests.executor.adapters.agent_functions import quick
from tests.executor.adapters.scenarios import Adapter, Gate, serving

from taskplane.executor.agent import Change, Complete, Turn


def make(gate: Gate) -> Callable[[Turn], Iterator[str | Change]]:
    def answer(turn: Turn) -> Iterator[str | Change]:
        if turn.text == "slow":
            yield "begun"
            gate.block()
            yield Complete("finished")
            return
        yield from quick(turn)

    return answer


ADAPTER = Adapter("blocking-function", serving(make))
