"""Titles of sessions, made of the first words of a user's message."""

from typing import Final

LONGEST: Final = 60
"""The most characters of a title that is made here."""
MOST_OPENING: Final = 200
"""Characters of the beginning of a text, by which a title made of it is known."""


def title_of(words: str) -> str:
    """Return the first words of a text, at most 60 characters."""
    text = " ".join(words[: 20 * LONGEST].split())
    if len(text) <= LONGEST:
        return text
    cut = text[: LONGEST + 1].rsplit(" ", 1)[0] if " " in text[: LONGEST + 1] else text[:LONGEST]
    return cut[:LONGEST]


def is_made_of(title: str, words: str) -> bool:
    """Return whether a title is the beginning of a text, cut after a word, with dots, or after 60 characters.

    Clients make titles of their own of the first message; they differ in the length and in the dots. `words`: the text,
    or its first `MOST_OPENING` characters.
    """
    text, shown = " ".join(words.split())[:MOST_OPENING], " ".join(title.split())[:MOST_OPENING]
    bare = shown.rstrip(".\N{HORIZONTAL ELLIPSIS} ")
    if not bare or not text.startswith(bare):
        return False
    return len(bare) >= LONGEST or bare != shown or not text[len(bare) : len(bare) + 1].isalnum()
