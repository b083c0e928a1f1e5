"""Functions that tests load by name, in threads and processes of their own."""

import os
import threading
from collections.abc import AsyncIterator, Iterator

from taskplane.agents.agent import Complete, Turn


def where(text: str) -> str:
    """Returns the thread and the process in which it runs."""
    return f"{os.getpid()} {threading.current_thread() is threading.main_thread()}"


async def where_async(text: str) -> str:
    return where(text)


def pieces(text: str) -> Iterator[str]:
    yield from (where(text), " ", text)


async def pieces_async(text: str) -> AsyncIterator[str]:
    for piece in pieces(text):
        yield piece


def attempt(turn: Turn) -> Complete:
    return Complete(f"{where(turn.text)} {turn.attempt}")
