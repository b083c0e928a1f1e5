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
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import MAX_ID, id_problem, is_segment
from taskplane.tasks.depth import check_depth, check_groups, surely_shallow, values_of, values_of_update
from taskplane.tasks.domain.changes import ArtifactUpdate, Change, Checkpoint, StatusUpdate, UserMessage
from taskplane.tasks.domain.commands import Append
from taskplane.tasks.domain.limits import MOST_WAITING
from taskplane.tasks.domain.task import STATES
from taskplane.tasks.pages import MAX_EVENTS, MAX_INFOS, MAX_MESSAGES, MAX_PAGE_SIZE, MAX_TENANT_TASKS

MAX_CHANGES: Final = 1000
MAX_FIGURES: Final = 100
MAX_SESSIONS: Final = 1000
MAX_CAPACITY: Final = 100_000
# The byte of U+0000 in a text. Tags and lengths have such bytes, too: it is only a reason to look closer.
_NUL: Final = 0
_HASH_BYTES: Final = 32
_LEAST_SECONDS: Final = -62_135_596_800
_MOST_SECONDS: Final = 253_402_300_799
_KINDS: Final = frozenset(pb.EventKind.values()) - {0}
_ON_ORPHAN: Final = frozenset(pb.OnOrphan.values())
_STRATEGIES: Final = frozenset(pb.Strategy.values())
_ROLES: Final = frozenset(a2a.Role.values()) - {0}


class _Problems:
    """The wrong fields of one request, each with its rule."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, field: str, problem: str) -> None:
        self._fields.setdefault(field, problem)

    def name(self, field: str, value: str, *, required: bool = True) -> None:
        """Check an id or a name: at most 255 characters, no control characters."""
        if not value:
            if required:
                self.add(field, "is required")
        elif (len(value) > MAX_ID or not value.isprintable()) and (problem := id_problem(value)):
            self.add(field, problem)

    def in_path(self, field: str, value: str) -> None:
        """Check the id of something new, which clients will name in a path."""
        if not is_segment(value):
            self.add(field, "must not be . or ..")

    def time(self, field: str, stamp: Timestamp) -> None:
        """Check that a time lies within the years 1 to 9999, the range of RFC 3339."""
        if not (_LEAST_SECONDS <= stamp.seconds <= _MOST_SECONDS and 0 <= stamp.nanos < 1_000_000_000):
            self.add(field, "must be a time within the years 1 to 9999")

    def request_hash(self, value: bytes) -> None:
        if len(value) != _HASH_BYTES:
            self.add("request_hash", f"must have {_HASH_BYTES} bytes")

    def at_least(self, field: str, value: int, least: int = 0) -> None:
        if value < least:
            self.add(field, f"must be at least {least}")

    def at_most(self, field: str, value: int, most: int) -> None:
        self.at_least(field, value)
        if value > most:
            self.add(field, f"must be at most {most:,}")

    def message(self, message: a2a.Message, read: UserMessage) -> None:
        """Check that the message of a user is complete, readable and storable."""
        self.name("message.message_id", read.message_id)
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
        for index, part in enumerate(parts):
            if "\0" in part.text:
                self.add(f"{field}.parts[{index}].text", "must not contain U+0000")

    def change(self, field: str, change: Change) -> None:
        """Check a change of an executor by itself; `decide` checks whether the task allows it."""
        if isinstance(change, StatusUpdate):
            if change.message_id is not None:
                self.name(f"{field}.status.message.message_id", change.message_id)
                self.texts(f"{field}.status.message", change.update(field).status.message.parts)
        elif isinstance(change, ArtifactUpdate):
            self.name(f"{field}.artifact.artifact_id", change.artifact_id)
            self.texts(f"{field}.artifact", change.update(field).artifact.parts)
        elif change is None:
            self.add(field, "must not be empty")

    def limit(self, field: str, seconds: float) -> None:
        if not 0 <= seconds <= MOST_WAITING:
            self.add(field, f"must be 0 to {MOST_WAITING:,.0f} seconds")

    def done(self) -> None:
        if self._fields:
            text = "; ".join(f"{field} {problem}" for field, problem in self._fields.items())
            raise Invalid(f"the request is not valid: {text}", fields=self._fields)


# A rule about one field of a request, whatever the request.
_Rule = Callable[[_Problems, Any], None]


def _name(field: str) -> _Rule:
    return lambda problems, request: problems.name(field, getattr(request, field))


def _names(field: str) -> _Rule:
    def check_each(problems: _Problems, request: Any) -> None:
        for index, each in enumerate(getattr(request, field)):
            problems.name(f"{field}[{index}]", each)

    return check_each


def _leases(problems: _Problems, request: Any) -> None:
    for index, lease in enumerate(request.leases):
        problems.name(f"leases[{index}].task_uid", lease.task_uid)


def _at_least(field: str, least: int = 0) -> _Rule:
    return lambda problems, request: problems.at_least(field, getattr(request, field), least)


def _at_most(field: str, most: int) -> _Rule:
    return lambda problems, request: problems.at_most(field, getattr(request, field), most)


def _refused(field: str, problem: str, is_bad: Callable[[Any], bool]) -> _Rule:
    def refuse(problems: _Problems, request: Any) -> None:
        if is_bad(getattr(request, field)):
            problems.add(field, problem)

    return refuse


_ONE_IMPORT: Final = (_name("context_id"), _name("import_id"))
_RULES: Final[Mapping[type[Message], Sequence[_Rule]]] = {
    pb.WatchTaskRequest: (
        _name("task_id"),
        _refused("stop_at", "must contain known states only", lambda states: not STATES.issuperset(states)),
    ),
    pb.GetTaskRequest: (_name("task_id"), _at_least("history_length")),
    pb.ListEventsRequest: (
        _name("task_id"),
        _refused("kinds", "must contain known kinds only", lambda kinds: not _KINDS.issuperset(kinds)),
        _at_least("after_generation"),
        _at_most("limit", MAX_EVENTS),
    ),
    pb.CancelTaskRequest: (_name("task_id"),),
    pb.DeleteTaskRequest: (_name("task_id"), _at_least("expected_generation")),
    pb.ListTurnsRequest: (_name("task_id"),),
    pb.MarkCopiedRequest: (_name("task_uid"), _at_least("generation", 1)),
    pb.MarkSupersededRequest: (_name("context_id"), _at_least("steered_seq", 1), _names("cut_invocation_ids")),
    pb.ListTaskInfosRequest: (_name("context_id"),),
    pb.ListMessagesRequest: (_name("context_id"),),
    pb.CompareDocumentsRequest: (_name("context_id"),),
    pb.WatchSessionRequest: (_name("context_id"),),
    pb.GetSessionFiguresRequest: (_name("context_id"),),
    pb.SummarizeSessionsRequest: (
        _refused("context_ids", f"must have at most {MAX_SESSIONS:,} elements", lambda ids: len(ids) > MAX_SESSIONS),
        _names("context_ids"),
    ),
    pb.ExportTaskRequest: (_name("task_id"), _at_least("generation")),
    pb.ReadArtifactRequest: (_name("task_id"), _at_least("version")),
    pb.StageImportRequest: _ONE_IMPORT,
    pb.CommitImportRequest: _ONE_IMPORT,
    pb.FinishImportRequest: _ONE_IMPORT,
    pb.ClaimRequest: (_name("process_id"), _names("agents"), _at_most("capacity", MAX_CAPACITY)),
    pb.RenewRequest: (_name("process_id"), _leases),
    pb.ReleaseRequest: (_name("process_id"), _leases),
}


def check(request: Message) -> None:
    """Check the fields of a request by the rules for its RPC, if these are all about single fields."""
    problems = _Problems()
    for rule in _RULES[type(request)]:
        rule(problems, request)
    problems.done()


def _is_sound(change: Change) -> bool:
    """Return whether a change is valid at first sight: its id is, and none of its bytes can be U+0000 in a text."""
    if isinstance(change, Checkpoint):
        return True
    if change is None or _NUL in change.serialized:
        return False
    name = change.message_id if isinstance(change, StatusUpdate) else change.artifact_id
    return name is None or (0 < len(name) <= MAX_ID and name.isprintable())


def _check_depth(field: str, changes: Iterable[Change]) -> None:
    for change in changes:
        if isinstance(change, StatusUpdate | ArtifactUpdate) and not surely_shallow(change.serialized):
            update = change.update(field)
            check_depth(field, values_of_update(update))
            check_groups(field, update)


def _check_options(options: pb.TurnOptions) -> None:
    check_depth("options.metadata", (options.metadata,))
    check_groups("options", options)


def _check_message_depth(message: a2a.Message, read: UserMessage) -> None:
    if not surely_shallow(read.serialized):
        check_depth("message", values_of(message))
        check_groups("message", message)


def create(request: pb.CreateTaskRequest, message: UserMessage, changes: Sequence[Change]) -> None:
    """Check a CreateTask request. `message` and `changes` are its message and first changes as they were read."""
    problems = _Problems()
    problems.name("invocation_id", request.invocation_id)
    problems.name("context_id", request.context_id)
    problems.name("agent", request.agent)
    problems.name("task_id", request.task_id, required=False)
    problems.in_path("context_id", request.context_id)
    problems.in_path("task_id", request.task_id)
    problems.name("claim_for", request.claim_for, required=False)
    problems.request_hash(request.request_hash)
    problems.message(request.message, message)
    if request.on_orphan not in _ON_ORPHAN:
        problems.add("on_orphan", "is unknown")
    if request.strategy not in _STRATEGIES:
        problems.add("strategy", "is unknown")
    problems.at_least("max_attempts", request.max_attempts)
    problems.limit("queue_limit", request.queue_limit)
    problems.limit("pause_limit", request.pause_limit)
    if len(changes) > MAX_CHANGES:
        problems.add("first_changes", f"must have at most {MAX_CHANGES:,} elements")
    if changes and not request.claim_for:
        problems.add("claim_for", "is required with first_changes")
    for place, change in enumerate(changes):
        if not _is_sound(change):
            problems.change(f"first_changes[{place}]", change)
    problems.done()
    if request.HasField("metadata"):
        check_depth("metadata", (request.metadata,))
        check_groups("metadata", request.metadata)
    _check_options(request.options)
    _check_message_depth(request.message, message)
    _check_depth("first_changes", changes)


def append(items: Sequence[Append]) -> None:
    """Check the items of AppendEvents as they were read: at most 1,000 changes together, and one item per task."""
    problems = _Problems()
    if sum([len(item.changes) for item in items]) > MAX_CHANGES:
        problems.add("items", f"must have at most {MAX_CHANGES:,} changes")
    if len({item.task_uid for item in items}) < len(items):
        problems.add("items", "must have at most one item per task")
    for index, item in enumerate(items):
        uid = item.task_uid
        if not (0 < len(uid) <= MAX_ID and uid.isprintable()):
            problems.name(f"items[{index}].task_uid", uid)
        if item.consumed_generation < 0:
            problems.add(f"items[{index}].consumed_generation", "must be at least 0")
        if item.copied_generation < 0:
            problems.add(f"items[{index}].copied_generation", "must be at least 0")
        for place, change in enumerate(item.changes):
            if not _is_sound(change):
                problems.change(f"items[{index}].changes[{place}]", change)
    problems.done()
    for item in items:
        _check_depth("items", item.changes)


def usage(request: pb.AppendEventsRequest) -> None:
    """Check the figures of the items of AppendEvents."""
    problems = _Problems()
    for index, item in enumerate(request.items):
        if len(item.usage) > MAX_FIGURES:
            problems.add(f"items[{index}].usage", f"must have at most {MAX_FIGURES} figures")
        for name, figure in item.usage.items():
            if len(name) > MAX_ID or not math.isfinite(figure):
                problems.add(
                    f"items[{index}].usage", f"must have finite figures with names of at most {MAX_ID} characters"
                )
    problems.done()


def add_message(request: pb.AddMessageRequest, message: UserMessage) -> None:
    """Check an AddMessage request. `message` is its message as it was read."""
    problems = _Problems()
    problems.name("task_id", request.task_id)
    problems.name("invocation_id", request.invocation_id)
    problems.name("expected_context", request.expected_context, required=False)
    problems.request_hash(request.request_hash)
    problems.message(request.message, message)
    problems.done()
    _check_options(request.options)
    _check_message_depth(request.message, message)


def list_tasks(request: pb.ListTasksRequest) -> None:
    """Check a ListTasks request. A page size out of bounds has reason `BAD_PAGE_SIZE`."""
    problems = _Problems()
    problems.name("context_id", request.context_id, required=False)
    problems.name("agent", request.agent, required=False)
    if request.state and int(request.state) not in STATES:
        problems.add("state", "is unknown")
    if int(request.order) not in pb.TaskOrder.values():
        problems.add("order", "is unknown")
    problems.at_least("history_length", request.history_length)
    problems.time("status_after", request.status_after)
    problems.done()
    _check_page_size(request.page_size, MAX_PAGE_SIZE, "tasks")


def list_tenant_tasks(request: pb.ListTenantTasksRequest) -> None:
    """Check a ListTenantTasks request. A page size out of bounds has reason `BAD_PAGE_SIZE`."""
    problems = _Problems()
    for field in ("agent", "owner", "executor"):
        problems.name(field, getattr(request, field), required=False)
    if not {int(state) for state in request.states} <= {0, *STATES}:
        problems.add("states", "must contain known states only")
    problems.done()
    _check_page_size(request.page_size, MAX_TENANT_TASKS, "tasks")


def get_tenant_task(request: pb.GetTenantTaskRequest) -> None:
    """Check a GetTenantTask request."""
    problems = _Problems()
    problems.name("task_id", request.task_id)
    problems.at_least("after_generation", request.after_generation)
    problems.at_most("limit", request.limit, MAX_EVENTS)
    problems.done()


def cancel(request: pb.CancelTaskRequest) -> None:
    """Check a CancelTask request."""
    check(request)
    check_depth("metadata", (request.metadata,))
    check_groups("metadata", request.metadata)


def put(request: pb.PutTaskRequest) -> None:
    """Check a PutTask request.

    The content of a document belongs to its runtime; only its storage and reading are checked.
    """
    task = request.task
    problems = _Problems()
    problems.name("task.id", task.id, required=False)
    problems.name("task.context_id", task.context_id)
    problems.in_path("task.id", task.id)
    problems.in_path("task.context_id", task.context_id)
    problems.name("agent", request.agent, required=False)
    problems.name("own_turn", request.own_turn, required=False)
    problems.at_least("expected_generation", request.expected_generation)
    if task.status.state and int(task.status.state) not in STATES:
        problems.add("task.status.state", "is unknown")
    problems.time("task.status.timestamp", task.status.timestamp)
    problems.texts("task.status.message", task.status.message.parts)
    for index, message in enumerate(task.history):
        problems.texts(f"task.history[{index}]", message.parts)
    for index, artifact in enumerate(task.artifacts):
        problems.texts(f"task.artifacts[{index}]", artifact.parts)
    problems.done()
    check_depth("task.metadata", (task.metadata,))
    check_depth("task.status", values_of(task.status.message))
    for message in task.history:
        check_depth("task.history", values_of(message))
    for artifact in task.artifacts:
        check_depth("task.artifacts", values_of(artifact))
    check_groups("task", task)


def list_uncopied(request: pb.ListUncopiedRequest) -> None:
    """Check a ListUncopied request."""
    problems = _Problems()
    problems.name("context_id", request.context_id, required=False)
    problems.at_most("limit", request.limit, MAX_EVENTS)
    if request.HasField("after"):
        problems.name("after.uid", request.after.uid)
        problems.time("after.status_at", request.after.status_at)
    problems.done()


def list_task_infos(request: pb.ListTaskInfosRequest) -> None:
    """Check a ListTaskInfos request. A page size out of bounds has reason `BAD_PAGE_SIZE`."""
    check(request)
    _check_page_size(request.page_size, MAX_INFOS, "tasks")


def list_messages(request: pb.ListMessagesRequest) -> None:
    """Check a ListMessages request. A page size out of bounds has reason `BAD_PAGE_SIZE`."""
    check(request)
    _check_page_size(request.page_size, MAX_MESSAGES, "messages")
    if not all(0 <= end <= len(request.shown) for end in request.ends.values()):
        raise Invalid("ends must be 0 to the length of `shown`", fields={"ends": "must be 0 to the length of `shown`"})


def _check_page_size(size: int, most: int, noun: str) -> None:
    if not 0 <= size <= most:
        raise Invalid(
            f"page_size must be 1 to {most:,} {noun}, not {size:,}",
            reason="BAD_PAGE_SIZE",
            fields={"page_size": f"must be 1 to {most:,}"},
        )


def drop_import(request: pb.DropImportRequest) -> None:
    """Check a DropImport request."""
    problems = _Problems()
    problems.name("context_id", request.context_id, required=bool(request.import_id))
    problems.name("import_id", request.import_id, required=False)
    problems.done()


def stage_import(request: pb.StageImportRequest) -> None:
    """Check a StageImport request."""
    check(request)
    problems = _Problems()
    problems.in_path("context_id", request.context_id)
    problems.at_least("number", request.number, 1)
    problems.done()


def unfinished_imports(request: pb.ListUnfinishedImportsRequest) -> None:
    """Check a ListUnfinishedImports request."""
    if not 0 <= request.min_age <= 366 * 86_400:
        raise Invalid(
            "min_age must be 0 seconds to a year", reason="BAD_AGE", fields={"min_age": "must be 0 seconds to a year"}
        )
