"""An agent that writes an artifact in pieces, and waits in the middle: `--agent tests.system.writing:Writer`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Policy, Turn

PIECES = 500


def piece(number: int) -> str:
    """Returns one piece of an artifact; each is different."""
    return f"<{number:04d} über>"


CONTENT = "".join(map(piece, range(PIECES)))


class Writer:
    """A message is a policy for a lost run and a file: the second half is written once the file exists. A run after a
    lost one reads from its task how far the artifact came."""

    card = AgentCard(name="writer", description="Writes an artifact.", version="1")

    def policy(self, turn: Turn) -> Policy:
        """Returns the policy that the message names first."""
        name = turn.text.split()[0]
        return Policy(on_orphan="resume" if name == "resume" else "rerun" if name == "rerun" else "fail")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """The artifact, a change for each piece."""
        go_on = Path(turn.text.split()[1]).exists
        shown = "".join(part.text for made in turn.task.artifacts for part in made.parts) if turn.task else ""
        for number in range(len(shown) // len(piece(0)), PIECES):
            while number == PIECES // 2 and not go_on():
                await asyncio.sleep(0.01)
            last = number == PIECES - 1
            yield ArtifactChunk("a", text=piece(number), append=number > 0, last=last, mergeable=False)
        yield Complete("Written.")
