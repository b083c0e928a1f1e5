"""The commands of the scenarios, and the answer of each agent in this folder.

    hello NAME      completes with "Hello, NAME."
    count           a growing text "one two three", in pieces; then completes with it
    ask             asks "What is your name?"; completes with "Hello, ANSWER." when it is answered
    slow GATE       a growing text "begun", shown at once; then waits for that gate; completes with "finished"
    fail            raises an exception with SECRET as its text
    artifact GATE   an artifact named "Report" with the text "one two three": "one " is shown at once, or the whole
                    text if artifacts cannot grow, and the rest after that gate; then completes

A gate is a file in the folder GATES of the environment, so that agents in other processes and languages see it too:
`await Gate(name).passed()`, `Gate(name).block()` in a thread, or test for the file.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Final

from taskplane.agents.adapters import adapt
from taskplane.agents.agent import Agent, Policy

SECRET: Final = "password=hunter2"
QUESTION: Final = "What is your name?"
COUNTED: Final = "one two three"
GATES: Final = "GATES"


class Gate:
    """A file that a slow agent waits for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = Path(os.environ[GATES]) / name

    def open(self) -> None:
        self._path.touch()

    @property
    def is_open(self) -> bool:
        return self._path.exists()

    async def passed(self) -> None:
        while not self.is_open:
            await asyncio.sleep(0.005)

    def block(self) -> None:
        while not self.is_open:
            time.sleep(0.005)


def rerun(agent: Any) -> Agent:
    """Returns the same agent with a policy under which a lost task runs again."""
    return adapt(agent, "again", Policy(on_orphan="rerun"))
