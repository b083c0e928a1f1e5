"""An agent that an executor only knows by its card: its tasks are queued for workers elsewhere."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from google.protobuf.json_format import Parse, ParseError

from taskplane.agents.agent import AgentError, Change, Policy, Turn
from taskplane.api.a2a.v1.a2a_pb2 import AgentCard

OnOrphan = Literal["fail", "rerun", "resume"]


class Elsewhere:
    """The card of an agent, and the policy of its tasks."""

    def __init__(self, card: AgentCard, on_orphan: OnOrphan = "fail", card_file: str = "") -> None:
        """`on_orphan`: the policy for a task of a lost worker. All other rules have their defaults. `card_file`: the
        file with the card, for errors."""
        self.card = card
        self.card_file = card_file
        self._policy = Policy(on_orphan=on_orphan)

    @classmethod
    def read(cls, path: str, on_orphan: OnOrphan = "fail") -> "Elsewhere":
        """Read the card from a file of A2A 1.0 JSON. ValueError: with the problem."""
        try:
            return cls(Parse(Path(path).read_text("utf-8-sig"), AgentCard()), on_orphan, path)
        except OSError as error:
            raise ValueError(f"its card {path} could not be read: {error.strerror}") from error
        except (ParseError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a card of A2A 1.0: {error}") from error

    def policy(self, turn: Turn) -> Policy:
        """Return the policy of every task."""
        return self._policy

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Raise AgentError: no task of it is run here."""
        raise AgentError("This agent runs in worker processes.")
        yield
