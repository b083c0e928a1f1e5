"""The calls that the test in progress made of the operations of A2A, over each binding."""

from typing import Final, Literal

Outcome = Literal["answered", "refused"]

NOTED: Final[set[tuple[str, str, Outcome]]] = set()
"""Operation, binding and outcome of each call since the test began, each once."""


def note(operation: str, binding: str, outcome: Outcome) -> None:
    """Note a call. A stream is answered with its first event."""
    NOTED.add((operation, binding, outcome))
