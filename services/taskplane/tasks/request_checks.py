"""Validation of requests before anything is done about them.

`check` knows the rules that are about single fields; each RPC with other rules has a function. All raise Invalid, with
all wrong fields, or with reason `TOO_DEEP`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import nesting
from taskplane.runtime.bounds import MOST_SECONDS, Range
from taskplane.runtime.validation import MAX_ID, NO_NUL, WrongFields
from taskplane.tasks.domain.changes import ArtifactUpdate, Change, Data, StatusUpdate, UserMessage
from taskplane.tasks.domain.commands import Append
from taskplane.tasks.domain.task import STATES
from taskplane.tasks.pages import MAX_EVENTS

MAX_CHANGES: Final = 1000
MAX_FIGURES: Final = 100
MAX_SESSIONS: Final = 1000
# The byte of U+0000 in a text. Tags and lengths have such bytes, too: it is only a reason to look closer.
_NUL: Final = 0
_CAPACITY: Final = Range(0, 100_000)
_EVENTS: Final = Range(0, MAX_EVENTS)
_WAITING: Final = Range(0, MOST_SECONDS, "seconds")
_LEAST_SECONDS: Final = -62_135_596_800
_MOST_SECONDS: Final = 253_402_300_799
_KINDS: Final = frozenset(pb.EventKind.values()) - {0}
_ON_ORPHAN: Final = frozenset(pb.OnOrphan.values())
_STRATEGIES: Final = frozenset(pb.Strategy.values())
_ROLES: Final = frozenset(a2a.Role.values()) - {0}


class _WrongFields(WrongFields):
    """The wrong fields of a request to the store."""

    __slots__ = ()

    def time(self, field: str, stamp: Timestamp) -> None:
        """Check that a time lies within the years 1 to 9999, the range of RFC 3339."""
        if not (_LEAST_SECONDS <= stamp.seconds <= _MOST_SECONDS and 0 <= stamp.nanos < 1_000_000_000):
            self.add(field, "must be a time within the years 1 to 9999")

    def message(self, message: a2a.Message, read: UserMessage) -> None:
        """Check that the message of a user is complete, readable and storable."""
        if message.role not in _ROLES:
            self.add("message.role", "is required" if not message.role else "is unknown")
        parts = message.parts
        if not parts:
            self.add("message.parts", "must not be empty")
        for index, part in enumerate(parts):
            if part.WhichOneof("content") is None:
                self.add(f"message.parts[{index}]", "must have content")
        if _NUL in read.serialized:
            self.texts("message", parts)

    def texts(self, field: str, parts: Iterable[a2a.Part]) -> None:
        """Check that texts can be stored."""
        for index, part in enumerate(parts):
            if "\0" in part.text:
                self.add(f"{field}.parts[{index}].text", NO_NUL)

    def change(self, field: str, change: Change) -> None:
        """Check a change of an executor by itself; `decide` checks whether the task allows it."""
        if isinstance(change, StatusUpdate):
            if change.message_id is not None:
                self.ids({f"{field}.status.message.message_id": change.message_id})
                self.texts(f"{field}.status.message", change.update(field).status.message.parts)
        elif isinstance(change, ArtifactUpdate):
            self.ids({f"{field}.artifact.artifact_id": change.artifact_id})
            self.texts(f"{field}.artifact", change.update(field).artifact.parts)
        elif change is None:
            self.add(field, "must not be empty")

    def page_size(self, size: int, most: int) -> None:
        """Check the size of a page; 0 is the default."""
        if size:
            self.within("page_size", size, Range(1, most))


# A rule about one field, for every kind of request.
_Rule = Callable[[_WrongFields, Any], None]


def _ids(*fields: str) -> _Rule:
    def check_ids(wrong: _WrongFields, request: Any) -> None:
        values: dict[str, str] = {}
        # A comprehension would be a call more, for each request.
        for field in fields:
            values[field] = getattr(request, field)
        wrong.ids(values)

    return check_ids


def _each_id(field: str) -> _Rule:
    return lambda wrong, request: wrong.ids(
        {f"{field}[{index}]": each for index, each in enumerate(getattr(request, field))}
    )


def _leases(wrong: _WrongFields, request: Any) -> None:
    wrong.ids({f"leases[{index}].task_uid": lease.task_uid for index, lease in enumerate(request.leases)})


def _at_least(field: str, least: int = 0) -> _Rule:
    return lambda wrong, request: wrong.at_least(field, getattr(request, field), least)


def _within(field: str, allowed: Range) -> _Rule:
    return lambda wrong, request: wrong.within(field, getattr(request, field), allowed)


def _refused(field: str, rule: str, is_bad: Callable[[Any], bool]) -> _Rule:
    def refuse(wrong: _WrongFields, request: Any) -> None:
        if is_bad(getattr(request, field)):
            wrong.add(field, rule)

    return refuse


_ONE_IMPORT: Final = (_ids("context_id", "import_id"),)
_RULES: Final[Mapping[type[Message], Sequence[_Rule]]] = {
    pb.WatchTaskRequest: (
        _ids("task_id"),
        _refused("stop_at", "must contain known states only", lambda states: not STATES.issuperset(states)),
    ),
    pb.GetTaskRequest: (_ids("task_id"), _at_least("history_length")),
    pb.ListEventsRequest: (
        _ids("task_id"),
        _refused("kinds", "must contain known kinds only", lambda kinds: not _KINDS.issuperset(kinds)),
        _at_least("after_generation"),
    ),
    pb.CancelTaskRequest: (_ids("task_id"),),
    pb.DeleteTaskRequest: (_ids("task_id"), _at_least("expected_generation")),
    pb.ListTurnsRequest: (_ids("task_id"),),
    pb.MarkCopiedRequest: (_ids("task_uid"), _at_least("generation", 1)),
    pb.MarkSupersededRequest: (_ids("context_id"), _at_least("steered_seq", 1), _each_id("cut_invocation_ids")),
    pb.ListTaskInfosRequest: (_ids("context_id"),),
    pb.CompareDocumentsRequest: (_ids("context_id"),),
    pb.WatchSessionRequest: (_ids("context_id"),),
    pb.GetSessionFiguresRequest: (_ids("context_id"),),
    pb.SummarizeSessionsRequest: (
        _refused("context_ids", f"must have at most {MAX_SESSIONS:,} elements", lambda ids: len(ids) > MAX_SESSIONS),
        _each_id("context_ids"),
    ),
    pb.ExportTaskRequest: (_ids("task_id"), _at_least("generation")),
    pb.ReadArtifactRequest: (_ids("task_id"), _at_least("version")),
    pb.CommitImportRequest: _ONE_IMPORT,
    pb.FinishImportRequest: _ONE_IMPORT,
    pb.ClaimRequest: (_ids("process_id"), _each_id("agents"), _within("capacity", _CAPACITY)),
    pb.RenewRequest: (_ids("process_id"), _leases),
    pb.ReleaseRequest: (_ids("process_id"), _leases),
}


def check(request: Message) -> None:
    """Check the fields of a request by the rules for its RPC, if these are all about single fields."""
    wrong = _WrongFields()
    for rule in _RULES[type(request)]:
        rule(wrong, request)
    wrong.check()


def _is_sound(change: Change) -> bool:
    """Return whether a change is valid at first sight: its id is, and none of its bytes can be U+0000 in a text."""
    if isinstance(change, Data):
        return True
    if change is None or _NUL in change.serialized:
        return False
    name = change.message_id if isinstance(change, StatusUpdate) else change.artifact_id
    return name is None or (0 < len(name) <= MAX_ID and name.isprintable())


def _check_depth(field: str, changes: Iterable[Change]) -> None:
    for change in changes:
        if isinstance(change, StatusUpdate | ArtifactUpdate) and not nesting.surely_shallow(change.serialized):
            nesting.check(field, change.update(field))


def _check_message_depth(message: a2a.Message, read: UserMessage) -> None:
    if not nesting.surely_shallow(read.serialized):
        nesting.check("message", message)


def create(request: pb.CreateTaskRequest, message: UserMessage, changes: Sequence[Change]) -> None:
    """Check a CreateTask request. `message` and `changes` are its message and first changes as they were read."""
    wrong = _WrongFields()
    wrong.ids(
        {
            "invocation_id": request.invocation_id,
            "context_id": request.context_id,
            "agent": request.agent,
            "message.message_id": message.message_id,
        }
    )
    wrong.ids({"task_id": request.task_id, "claim_for": request.claim_for}, required=False)
    wrong.segment("context_id", request.context_id)
    wrong.segment("task_id", request.task_id)
    wrong.request_hash("request_hash", request.request_hash)
    wrong.message(request.message, message)
    if request.on_orphan not in _ON_ORPHAN:
        wrong.add("on_orphan", "is unknown")
    if request.strategy not in _STRATEGIES:
        wrong.add("strategy", "is unknown")
    wrong.at_least("max_attempts", request.max_attempts)
    wrong.within("queue_limit", request.queue_limit, _WAITING)
    wrong.within("pause_limit", request.pause_limit, _WAITING)
    if len(changes) > MAX_CHANGES:
        wrong.add("first_changes", f"must have at most {MAX_CHANGES:,} elements")
    if changes and not request.claim_for:
        wrong.add("claim_for", "is required with first_changes")
    for place, change in enumerate(changes):
        if not _is_sound(change):
            wrong.change(f"first_changes[{place}]", change)
    wrong.check()
    if request.HasField("metadata"):
        nesting.check("metadata", request.metadata)
    nesting.check("options", request.options)
    _check_message_depth(request.message, message)
    _check_depth("first_changes", changes)


def append(items: Sequence[Append]) -> None:
    """Check the items of AppendEvents as they were read: at most 1,000 changes together, and one item per task."""
    wrong = _WrongFields()
    if sum([len(item.changes) for item in items]) > MAX_CHANGES:
        wrong.add("items", f"must have at most {MAX_CHANGES:,} changes")
    if len({item.task_uid for item in items}) < len(items):
        wrong.add("items", "must have at most one item per task")
    for index, item in enumerate(items):
        uid = item.task_uid
        if not (0 < len(uid) <= MAX_ID and uid.isprintable()):
            wrong.ids({f"items[{index}].task_uid": uid})
        if item.consumed_generation < 0 or item.copied_generation < 0:
            wrong.at_least(f"items[{index}].consumed_generation", item.consumed_generation)
            wrong.at_least(f"items[{index}].copied_generation", item.copied_generation)
        for place, change in enumerate(item.changes):
            if not _is_sound(change):
                wrong.change(f"items[{index}].changes[{place}]", change)
    wrong.check()
    for item in items:
        _check_depth("items", item.changes)


def usage(request: pb.AppendEventsRequest) -> None:
    """Check the figures of the items of AppendEvents."""
    wrong = _WrongFields()
    for index, item in enumerate(request.items):
        if len(item.usage) > MAX_FIGURES:
            wrong.add(f"items[{index}].usage", f"must have at most {MAX_FIGURES} figures")
        for name, figure in item.usage.items():
            if len(name) > MAX_ID or not math.isfinite(figure):
                wrong.add(
                    f"items[{index}].usage", f"must have finite figures with names of at most {MAX_ID} characters"
                )
    wrong.check()


def add_message(request: pb.AddMessageRequest, message: UserMessage) -> None:
    """Check an AddMessage request. `message` is its message as it was read."""
    wrong = _WrongFields()
    wrong.ids(
        {
            "task_id": request.task_id,
            "invocation_id": request.invocation_id,
            "message.message_id": message.message_id,
        }
    )
    wrong.ids({"expected_context": request.expected_context}, required=False)
    wrong.at_least("expected_generation", request.expected_generation)
    wrong.request_hash("request_hash", request.request_hash)
    wrong.message(request.message, message)
    wrong.check()
    nesting.check("options", request.options)
    _check_message_depth(request.message, message)


def list_tasks(request: pb.ListTasksRequest) -> None:
    """Check a ListTasks request; the log checks the page size of each listing."""
    wrong = _WrongFields()
    wrong.ids({"context_id": request.context_id, "agent": request.agent}, required=False)
    if request.state and int(request.state) not in STATES:
        wrong.add("state", "is unknown")
    if int(request.order) not in pb.TaskOrder.values():
        wrong.add("order", "is unknown")
    wrong.at_least("history_length", request.history_length)
    wrong.time("status_after", request.status_after)
    wrong.check()


def list_tenant_tasks(request: pb.ListTenantTasksRequest) -> None:
    """Check a ListTenantTasks request."""
    wrong = _WrongFields()
    wrong.ids({"agent": request.agent, "owner": request.owner, "executor": request.executor}, required=False)
    if not {int(state) for state in request.states} <= {0, *STATES}:
        wrong.add("states", "must contain known states only")
    wrong.check()


def get_tenant_task(request: pb.GetTenantTaskRequest) -> None:
    """Check a GetTenantTask request."""
    wrong = _WrongFields()
    wrong.ids({"task_id": request.task_id})
    wrong.at_least("after_generation", request.after_generation)
    wrong.within("limit", request.limit, _EVENTS)
    wrong.check()


def cancel(request: pb.CancelTaskRequest) -> None:
    """Check a CancelTask request."""
    check(request)
    nesting.check("metadata", request.metadata)


def put(request: pb.PutTaskRequest) -> None:
    """Check a PutTask request.

    The content of a document belongs to its runtime; only its storage and reading are checked.
    """
    task = request.task
    wrong = _WrongFields()
    wrong.ids({"task.context_id": task.context_id})
    wrong.ids({"task.id": task.id, "agent": request.agent, "own_turn": request.own_turn}, required=False)
    wrong.segment("task.id", task.id)
    wrong.segment("task.context_id", task.context_id)
    wrong.at_least("expected_generation", request.expected_generation)
    if task.status.state and int(task.status.state) not in STATES:
        wrong.add("task.status.state", "is unknown")
    wrong.time("task.status.timestamp", task.status.timestamp)
    wrong.texts("task.status.message", task.status.message.parts)
    for index, message in enumerate(task.history):
        wrong.texts(f"task.history[{index}]", message.parts)
    for index, artifact in enumerate(task.artifacts):
        wrong.texts(f"task.artifacts[{index}]", artifact.parts)
    wrong.check()
    nesting.check("task", task)


def list_uncopied(request: pb.ListUncopiedRequest) -> None:
    """Check a ListUncopied request."""
    wrong = _WrongFields()
    wrong.ids({"context_id": request.context_id}, required=False)
    wrong.within("limit", request.limit, _EVENTS)
    if request.HasField("after"):
        wrong.ids({"after.uid": request.after.uid})
        wrong.time("after.status_at", request.after.status_at)
    wrong.check()


def list_messages(request: pb.ListMessagesRequest) -> None:
    """Check a ListMessages request."""
    wrong = _WrongFields()
    wrong.ids({"context_id": request.context_id})
    if not all(0 <= end <= len(request.shown) for end in request.ends.values()):
        wrong.add("ends", "must be 0 to the length of `shown`")
    wrong.check()


def drop_import(request: pb.DropImportRequest) -> None:
    """Check a DropImport request."""
    wrong = _WrongFields()
    wrong.ids({"context_id": request.context_id}, required=bool(request.import_id))
    wrong.ids({"import_id": request.import_id}, required=False)
    wrong.check()


def stage_import(request: pb.StageImportRequest) -> None:
    """Check a StageImport request."""
    wrong = _WrongFields()
    wrong.ids({"context_id": request.context_id, "import_id": request.import_id})
    wrong.segment("context_id", request.context_id)
    wrong.at_least("number", request.number, 1)
    wrong.check()


def unfinished_imports(request: pb.ListUnfinishedImportsRequest) -> None:
    """Check a ListUnfinishedImports request."""
    wrong = _WrongFields()
    wrong.within("min_age", request.min_age, Range(0, 366 * 86_400, "seconds"))
    wrong.check()
