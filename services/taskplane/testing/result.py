"""The outcome of a turn, for a test to look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskplane.agents.agent import Change, Message, Part, Task
from taskplane.runtime.json_values import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeArtifact:
    """An artifact with all its chunks joined. `parts` as clients get them; texts that follow one another are one."""

    id: str
    name: str
    description: str
    parts: Sequence[Part]
    metadata: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Return the text parts, one after the other."""
        return "".join(part.text for part in self.parts)

    @property
    def data(self) -> list[Any]:
        """Return the JSON of the data parts, in order. Numbers are floats, as in every A2A message."""
        return [to_json(part.data) for part in self.parts if part.HasField("data")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """The end of a turn, as a client and as its author see it.

    `changes`: the changes of the agent in this turn, in order. `state`: "completed", "failed", "rejected", "canceled",
    "input-required", "auth-required", or "answered" for the direct answer of a Router. `text`: the messages of the
    agent in this turn, one message a line; the last line is the final question or reason, if any. `reason`: the stable
    code of a failure. `error`: the exception of the agent's code, if any. `messages`: the messages of `text`.
    `artifacts`: the artifacts of the task by id. `status_texts`: the progress lines of the task. `usage`: the sums of
    the task's Usage. `checkpoint`: the data of its newest Checkpoint. `direct_answer`: the text of a Router's answer,
    else None. `session_events` and `session_state`: of the session after the turn. `task`: the result of GetTask; None
    for a direct answer.
    """

    changes: Sequence[Change]
    state: str
    text: str
    reason: str
    error: BaseException | None = field(repr=False)
    messages: Sequence[Message] = field(repr=False)
    artifacts: Mapping[str, MadeArtifact]
    status_texts: Sequence[str]
    usage: Mapping[str, float]
    checkpoint: Any
    direct_answer: str | None
    session_events: Sequence[Mapping[str, Any]] = field(repr=False)
    session_state: Mapping[str, Any]
    task: Task | None = field(repr=False)
