"""The title of a session that a message begins."""

from typing import Final

LONGEST: Final = 60


def title_of(text: str) -> str:
    """Return the title that a text makes: its first words, at most 60 characters."""
    title = " ".join(text[: 20 * LONGEST].split())
    if len(title) <= LONGEST:
        return title
    words = title[: LONGEST + 1].rsplit(" ", 1)[0] if " " in title[: LONGEST + 1] else title[:LONGEST]
    return words[:LONGEST]
