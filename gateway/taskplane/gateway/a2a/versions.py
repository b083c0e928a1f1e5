"""The A2A versions, and the rules in which their operations differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one version."""

    # The header that names extensions.
    extensions_header: bytes
    # The most messages in the history of a stream's tasks, if the request has no bound; None: all.
    stream_history: int | None
    # Clients may choose the ids of their tasks, if the gateway allows it.
    client_task_ids: bool
    # The reason of the error for a missing extended card.
    no_extended_card: str


RULES: Final[Mapping[str, Rules]] = {
    "1.0": Rules(
        extensions_header=b"a2a-extensions",
        stream_history=None,
        client_task_ids=False,
        no_extended_card="UNSUPPORTED_OPERATION",
    ),
    "0.3": Rules(
        extensions_header=b"x-a2a-extensions",
        # Clients replace their whole conversation by any full Task that has a history.
        stream_history=0,
        client_task_ids=True,
        no_extended_card="EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
}
