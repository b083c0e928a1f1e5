"""The scenarios with a plain generator function, which blocks its thread."""

from collections.abc import Iterator

from tests.scenarios.agent_function import first, others, quick
from tests.scenarios.script import Gate, rerun

from taskplane.agents.agent import Agent, Change, Complete, Turn


def agent(turn: Turn) -> Iterator[str | Change]:
    """Answers fixed words."""
    word, _, rest = turn.text.partition(" ")
    match word:
        case "slow":
            yield "begun"
            Gate(rest).block()
            yield Complete("finished")
        case "artifact":
            yield first()
            Gate(rest).block()
            yield from others()
        case _:
            yield from quick(turn)


def again() -> Agent:
    return rerun(agent)
