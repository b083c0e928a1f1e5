"""A2A 1.0 as JSON: ProtoJSON of its messages (A2A 1.0 section 5.5), written by hand because the library's printer takes
several times as long.

Each access to a field creates an object, so each field is accessed once. `[:]` of a repeated field copies it, which
avoids the IndexError that ends the iteration of the field itself.
"""

from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate import cards
from taskplane.gateway.translate.dialect import CardAnswer, Encoded, Listing, Payload, Result, newest
from taskplane.gateway.translate.metadata import marks
from taskplane.gateway.translate.parts import to_1_0
from taskplane.gateway.translate.requests import ROLES, STATES, Requests
from taskplane.gateway.translate.timestamps import to_text
from taskplane.runtime.json_values import to_dict


class Dialect:
    """A2A 1.0, and the parts that the other version shares with it."""

    version = "1.0"
    # Whether requests name a tenant.
    has_tenants = True
    requests = Requests()

    def part(self, found: a2a.Part) -> Encoded:
        """Write a Part."""
        return to_1_0(found)

    def role(self, role: int) -> str | int:
        """Write a role that is set."""
        return ROLES.get(role, role)

    def state(self, state: int) -> str | int:
        """Write a state."""
        return STATES.get(state, state)

    def message(self, found: a2a.Message) -> Encoded:
        """Write a Message."""
        out: Encoded = {}
        if message_id := found.message_id:
            out["messageId"] = message_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if task_id := found.task_id:
            out["taskId"] = task_id
        if role := found.role:
            out["role"] = self.role(role)
        if parts := found.parts:
            out["parts"] = [self.part(part) for part in parts[:]]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        if extensions := found.extensions:
            out["extensions"] = list(extensions)
        if references := found.reference_task_ids:
            out["referenceTaskIds"] = list(references)
        return out

    def artifact(self, found: a2a.Artifact) -> Encoded:
        """Write an Artifact."""
        out: Encoded = {}
        if artifact_id := found.artifact_id:
            out["artifactId"] = artifact_id
        if name := found.name:
            out["name"] = name
        if description := found.description:
            out["description"] = description
        if parts := found.parts:
            out["parts"] = [self.part(part) for part in parts[:]]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        if extensions := found.extensions:
            out["extensions"] = list(extensions)
        return out

    def status(self, found: a2a.TaskStatus) -> Encoded:
        """Write a TaskStatus."""
        out: Encoded = {"state": self.state(found.state)}
        if found.HasField("message"):
            out["message"] = self.message(found.message)
        if found.HasField("timestamp"):
            out["timestamp"] = to_text(found.timestamp)
        return out

    def task(
        self, found: a2a.Task, history_length: int | None = None, cursor: str = "", *, numbered: bool = False
    ) -> Encoded:
        """Write a Task with at most `history_length` messages of its history, all of them by default, and with its
        cursor if that is given. `numbered`: also with its generation."""
        out: Encoded = {}
        if task_id := found.id:
            out["id"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("status"):
            out["status"] = self.status(found.status)
        if artifacts := found.artifacts:
            out["artifacts"] = [self.artifact(one) for one in artifacts[:]]
        # The session task always has a history, even an empty one.
        if (history := newest(found.history, history_length)) or (found.id and found.id == found.context_id):
            out["history"] = [self.message(one) for one in history]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        _mark(out, cursor, numbered)
        return out

    def status_update(self, found: a2a.TaskStatusUpdateEvent, cursor: str = "", *, numbered: bool = False) -> Encoded:
        """Write a TaskStatusUpdateEvent as `task` does."""
        out: Encoded = {}
        if task_id := found.task_id:
            out["taskId"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("status"):
            out["status"] = self.status(found.status)
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        _mark(out, cursor, numbered)
        return out

    def artifact_update(
        self, found: a2a.TaskArtifactUpdateEvent, cursor: str = "", *, numbered: bool = False
    ) -> Encoded:
        """Write a TaskArtifactUpdateEvent as `task` does."""
        out: Encoded = {}
        if task_id := found.task_id:
            out["taskId"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("artifact"):
            out["artifact"] = self.artifact(found.artifact)
        if found.append:
            out["append"] = True
        if found.last_chunk:
            out["lastChunk"] = True
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        _mark(out, cursor, numbered)
        return out

    def event(self, found: Payload, cursor: str = "", *, numbered: bool = False) -> Encoded:
        """Write a StreamResponse, which has exactly one wrapper key. All but a Message have their cursor if it is
        given. `numbered`: and their generation."""
        if isinstance(found, a2a.TaskArtifactUpdateEvent):
            return {"artifactUpdate": self.artifact_update(found, cursor, numbered=numbered)}
        if isinstance(found, a2a.Task):
            return {"task": self.task(found, cursor=cursor, numbered=numbered)}
        if isinstance(found, a2a.TaskStatusUpdateEvent):
            return {"statusUpdate": self.status_update(found, cursor, numbered=numbered)}
        return {"message": self.message(found)}

    def card(self, found: a2a.AgentCard) -> Encoded:
        """Write an AgentCard."""
        return cards.to_1_0(found)

    def result(self, found: Result) -> Encoded:
        """Write the answer to a unary call."""
        if isinstance(found, CardAnswer):
            return self.card(found.card)
        if isinstance(found, Listing):
            return self._listing(found)
        payload = found.payload
        if found.bare and isinstance(payload, a2a.Task):
            return self.task(payload, cursor=found.cursor, numbered=found.numbered)
        return self.event(payload, found.cursor, numbered=found.numbered)

    def _listing(self, found: Listing) -> Encoded:
        """Write the result of ListTasks with its default values (all four members are required); if artifacts are
        included, every task has the key `artifacts`."""
        tasks = [self.task(one, cursor=cursor, numbered=found.numbered) for one, cursor in found.tasks]
        if found.include_artifacts:
            for one in tasks:
                one.setdefault("artifacts", [])
        else:
            for one in tasks:
                one.pop("artifacts", None)
        return {
            "tasks": tasks,
            "nextPageToken": found.next_page_token,
            "pageSize": found.page_size,
            "totalSize": found.total_size,
        }


def _mark(out: Encoded, cursor: str, numbered: bool) -> None:
    """Add the marks of a task or an event in place: a stream writes every piece of a text this way."""
    if cursor:
        out.setdefault("metadata", {}).update(marks(cursor, numbered=numbered))


V1_0: Final = Dialect()
