"""Functions that are agents."""

from collections.abc import Iterator

from taskplane.agents import ArtifactChunk, AskInput, Change, Turn


def shout(text):
    """Says the same, louder."""
    return f"{text.upper()}!"


def report(turn: Turn) -> Iterator[str | Change]:
    """Writes a short report. Asks for a subject if there is none."""
    topic = turn.text.removeprefix("report").strip()
    if not topic:
        yield AskInput("What shall it be about?")
        return
    yield ArtifactChunk("report", text=f"# {topic}\n", name="Report", media_type="text/markdown")
    yield ArtifactChunk("report", text="All is well.\n", append=True, last=True)
    yield "This is "
    yield f"a report about {topic}."
