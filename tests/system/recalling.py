"""An agent for tests of the next prompt."""

from collections.abc import AsyncIterator

from taskplane.agents.agent import AgentCard, Change, Complete, Turn


class Recalling:
    """Answers with the conversation before the message."""

    card = AgentCard(name="Recalling", description="Says what it remembers.", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete(", ".join(message.parts[0].text for message in turn.history) or "nothing")
