"""The thread of a conversation in a graph's checkpointer, and the checkpoint from which a turn continues.

Every checkpoint names the invocation that made it. A turn continues from the checkpoint of the newest invocation in
effect. After a rewind the turn continues from an earlier checkpoint, and the thread gets a new branch. Checkpoints are
stored in the checkpointer only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from taskplane.agents.agent import Message, Turn
from taskplane.api.message_metadata import INVOCATION
from taskplane.runtime.json_values import text_in

_KEY: Final = "taskplane_invocation"
# No checkpoint has this id: a run from it begins at the start of the graph, in the same thread.
_NOTHING: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The point in a thread where a turn goes on."""

    config: Mapping[str, Any]
    # State of the graph at the checkpoint, and the invocation that made it; None and "" without a checkpoint.
    snapshot: Any
    invocation: str

    def unknown(self, turn: Turn) -> Sequence[Message]:
        """Return the messages of the conversation that the thread does not have, oldest first."""
        history = [message for message in turn.history if invocation_in(message) != turn.invocation_id]
        for index in range(len(history) - 1, -1, -1):
            if self.invocation and invocation_in(history[index]) == self.invocation:
                return history[index + 1 :]
        return history


class Thread:
    """The thread of a turn: one for each agent, user and session."""

    def __init__(self, graph: Any, agent: str, turn: Turn) -> None:
        who = (agent, turn.caller.tenant, turn.caller.owner, turn.context_id)
        self._graph = graph
        self._turn = turn
        self._config = {"configurable": {"thread_id": "/".join(quote(part, safe="") for part in who)}}

    async def resume_point(self, history: Sequence[Message], *, own: bool) -> ResumePoint:
        """Return the resume point of the turn. `own`: checkpoints of an earlier attempt at this turn count, too."""
        newest = await self._graph.aget_state(self._config)
        if newest.metadata is None:
            return ResumePoint(self._config, None, "")
        invocations = dict.fromkeys(invocation_in(message) for message in history)
        invocations.pop(self._turn.invocation_id, None)
        if own:
            invocations[self._turn.invocation_id] = None
        made_by = newest.metadata.get(_KEY, "")
        if made_by in invocations:
            return ResumePoint(self._config, newest, made_by)
        for invocation in reversed(invocations):
            found = self._graph.aget_state_history(self._config, filter={_KEY: invocation}, limit=1)
            async for snapshot in found:
                return ResumePoint(snapshot.config, snapshot, invocation)
        return ResumePoint({"configurable": {**self._config["configurable"], "checkpoint_id": _NOTHING}}, None, "")


def invocation_of(turn: Turn) -> dict[str, str]:
    """Return the metadata of the checkpoints of a turn: its ids."""
    return {_KEY: turn.invocation_id, "taskplane_task": turn.task_id}


def invocation_in(message: Message) -> str:
    """Return the invocation that a message belongs to; empty if it names none."""
    return text_in(message.metadata, INVOCATION)
