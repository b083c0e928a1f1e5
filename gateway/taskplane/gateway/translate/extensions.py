"""The extensions of A2A by this gateway (A2A 1.0 section 4.6), which every card declares."""

from collections.abc import Mapping
from typing import Final

from taskplane.api import growing_text

_BASE: Final = "https://taskplane.dev/extensions/"
RESUME: Final = f"{_BASE}resume/v1"
GENERATION: Final = f"{_BASE}generation/v1"
REWIND: Final = f"{_BASE}rewind/v1"

DECLARED: Final[Mapping[str, str]] = {
    growing_text.EXTENSION: "Streams contain the pieces of a text while it is written.",
    RESUME: "Every event of a task has a cursor in its metadata, and a stream goes on after any of them.",
    GENERATION: "Tasks and events have the number of the newest event, and a message may expect it.",
    REWIND: "A message cuts the conversation before an earlier turn, and may begin a new one there.",
}
"""The descriptions of the extensions, by their URIs."""
