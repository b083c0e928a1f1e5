"""An agent that asks for a subject and writes a short report about it."""

from collections.abc import AsyncIterator

from taskplane.agents import AgentCard, ArtifactChunk, AskInput, Change, Complete, Text, Turn, Working


class Reporter:
    card = AgentCard(name="Reporter", description="Writes short reports.", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        topic = turn.text.removeprefix("report").strip()
        if not topic:
            yield AskInput("What shall the report be about?")
            return
        yield Working("Writing the report")
        yield ArtifactChunk("report", text=f"# {topic}\n", name="Report", media_type="text/markdown")
        yield ArtifactChunk("report", text="All is well.\n", append=True, last=True)
        yield Text("The report ")
        yield Text("is done.")
        yield Complete()
