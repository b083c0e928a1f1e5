"""Agents that lose their own run in mid-work. For `taskplane dev --agent tests.system.lossy:...`."""

import asyncio
from collections.abc import AsyncIterator

from taskplane.agents.agent import AgentCard, Change, Complete, Policy, Text, Turn


class Lossy:
    """Cancels its run from outside, as a bug of the executor might: in the first attempt at a turn, or `always`."""

    card = AgentCard(name="lossy", description="Loses its run.", version="1")

    def policy(self, turn: Turn) -> Policy:
        """`once`: may not run again."""
        return Policy(on_orphan="fail" if turn.text == "once" else "rerun")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Half a sentence, and then the run is lost."""
        yield Text("About to ")
        if turn.attempt == 1 or turn.text == "always":
            (run,) = [one for one in asyncio.all_tasks() if one.get_name() == f"run of task {turn.task_id}"]
            run.cancel()
            await asyncio.sleep(3600)
        yield Complete("Done.")
