"""Agents that lose their own run in mid-work. For `taskplane dev --agent tests.system.lossy:...`."""

import asyncio
from collections.abc import AsyncIterator

from taskplane.executor.agent import AgentCard, Change, Complete, Policy, Text, Turn


class Lossy:
    """Its first attempt at a turn cancels the task it runs in, as a bug in some library might; the second completes."""

    card = AgentCard(name="lossy", description="Loses its run.", version="1")

    def policy(self, turn: Turn) -> Policy:
        """`again`: may run once more."""
        return Policy(on_orphan="rerun" if turn.text == "again" else "fail")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Half a sentence, and gone."""
        yield Text("About to ")
        if turn.attempt == 1:
            run = asyncio.current_task()
            assert run is not None
            run.cancel()
            await asyncio.sleep(3600)
        yield Complete("Done.")
