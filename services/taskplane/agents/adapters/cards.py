"""Cards for agents without a card."""

import inspect
from collections.abc import Sequence
from typing import Any

from taskplane.api.a2a.v1.a2a_pb2 import AgentCapabilities, AgentCard


def card(name: str, description: str, *, input_modes: Sequence[str] = ("text/plain",)) -> AgentCard:
    """Return the card of an adapted agent: version "1", streaming, texts in and out."""
    return AgentCard(
        name=name,
        description=description,
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=input_modes,
        default_output_modes=["text/plain"],
    )


def first_paragraph(documented: Any) -> str:
    """Return the first paragraph of a docstring in one line; "" without a docstring."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())
