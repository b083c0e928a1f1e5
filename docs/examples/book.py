"""An agent that goes on where it was when its process was killed."""

import asyncio
from collections.abc import AsyncIterator

from taskplane.agents import AgentCard, ArtifactChunk, Change, Checkpoint, Complete, Policy, Turn

PAGES = 6


class Book:
    card = AgentCard(name="Book", description="Writes a book, page by page.", version="1")

    def policy(self, turn: Turn) -> Policy:
        return Policy(on_orphan="resume")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        written = turn.checkpoint or 0
        for page in range(written + 1, PAGES + 1):
            await asyncio.sleep(0.5)
            yield ArtifactChunk("book", text=f"Page {page}\n", append=page > 1, last=page == PAGES)
            yield Checkpoint(page)
        yield Complete("The book is written.")
