"""Checks of operations on sessions: lengths, characters, ranges, and the payload of each kind of entry.

Each function raises Invalid with all wrong fields.
"""

from collections.abc import Sequence
from typing import Final

from taskplane.runtime.bounds import Range
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import HASH_BYTES, MAX_ID, NO_NUL, WrongFields, invalid
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import EVENT, KINDS, MESSAGE, OUTCOME, PUSHED, REWIND, VOID, Entry
from taskplane.sessions.store import (
    MAX_PAGE_SIZE,
    REPLY_BYTES,
    EntryFilter,
    ExpiredSession,
    UnappliedSession,
)

MAX_TITLE: Final = 1000
MAX_ENTRIES: Final = 1000
# Maximum bytes of the payload of an entry: the limit of a request.
MAX_ENTRY: Final = 4 * 1024 * 1024
_YEAR: Final = 366 * 86_400
_UNSETTLED_AGE: Final = Range(0, _YEAR, "seconds")
_SESSION_AGE: Final = Range(0, 100 * _YEAR, "seconds")
_PAGE: Final = Range(1, MAX_PAGE_SIZE)


class SessionFields(WrongFields):
    """The wrong fields of an operation on a session."""

    __slots__ = ()

    def text(self, field: str, value: str) -> None:
        """Check a text: at most 1,000 characters, and no U+0000, which no database stores."""
        if len(value) > MAX_TITLE:
            self.add(field, f"must have at most {MAX_TITLE:,} characters")
        elif "\0" in value:
            self.add(field, NO_NUL)

    def time(self, field: str, micros: int) -> None:
        """Check that a time is after 1970 and can be stored."""
        if not 0 < micros < 1 << 62:
            self.add(field, "must be a time after 1970")

    def described(self, prefix: str, agent: str, title: str, source: str = "") -> None:
        """Check the agent and the texts of a session."""
        if agent:
            self.ids({f"{prefix}agent": agent})
        self.text(f"{prefix}title", title)
        if source:
            self.text(f"{prefix}source", source)

    def place(self, after: UnappliedSession | ExpiredSession | None, at: int) -> None:
        """Check the last session of the previous page of a list."""
        if after is not None:
            self.text("after.tenant", after.tenant)
            self.text("after.owner", after.owner)
            self.text("after.context_id", after.context_id)
            self.time("after", at)

    def entry(self, where: str, entry: Entry) -> None:
        """Check an entry that is not `_is_plain`."""
        if entry.kind not in KINDS:
            self.add(f"{where}.kind", "must be one of " + ", ".join(KINDS.values()))
        self.ids({f"{where}.id": entry.id})
        ids = {
            f"{where}.invocation_id": entry.invocation_id,
            f"{where}.task_id": entry.task_id,
            f"{where}.task_invocation_id": entry.task_invocation_id,
            f"{where}.actor": entry.actor,
        }
        self.ids(ids, required=False)
        self.ids({f"{where}.target": entry.target}, required=entry.kind in (REWIND, VOID))
        if entry.request_hash is not None:
            self.request_hash(f"{where}.request_hash", entry.request_hash)
        self.at_least(f"{where}.generation", entry.generation)


def check_session(context_id: str) -> None:
    """Check the id of a session."""
    wrong = WrongFields()
    wrong.ids({"context_id": context_id})
    wrong.check()


def check_list(page_size: int, title: str) -> None:
    """Check the size of a page of sessions, and the text to find in titles."""
    wrong = SessionFields()
    wrong.within("page_size", page_size, _PAGE)
    wrong.text("title", title)
    wrong.check()


def check_limit(limit: int) -> None:
    """Check the number of sessions or turns in a list."""
    wrong = WrongFields()
    wrong.within("limit", limit, _PAGE)
    wrong.check()


def check_unapplied(limit: int, after: UnappliedSession | None) -> None:
    """Check a listing of unapplied sessions."""
    wrong = SessionFields()
    wrong.within("limit", limit, _PAGE)
    wrong.place(after, after.updated_at if after else 0)
    wrong.check()


def check_unsettled(min_age: float, limit: int) -> None:
    """Check a listing of unsettled turns."""
    wrong = WrongFields()
    wrong.within("min_age", min_age, _UNSETTLED_AGE)
    wrong.within("limit", limit, _PAGE)
    wrong.check()


def check_expired(min_age: float, after: ExpiredSession | None, limit: int) -> None:
    """Check a listing of expired sessions."""
    wrong = SessionFields()
    wrong.within("min_age", min_age, _SESSION_AGE)
    wrong.within("limit", limit, _PAGE)
    wrong.place(after, after.created_at if after else 0)
    wrong.check()


def check_until(field: str, until: int) -> None:
    """Check the end of a range of time."""
    wrong = SessionFields()
    wrong.time(field, until)
    wrong.check()


def check_stage(context_id: str, import_id: str, field: str, number: int) -> None:
    """Check the ids of an import, and a number or count of its pages."""
    wrong = WrongFields()
    wrong.ids({"context_id": context_id, "import_id": import_id})
    wrong.segment("context_id", context_id)
    wrong.at_least(field, number, 1)
    wrong.check()


def check_drop(context_id: str, import_id: str) -> None:
    """Check the ids of imports to drop."""
    wrong = WrongFields()
    wrong.ids({"context_id": context_id}, required=bool(import_id))
    wrong.ids({"import_id": import_id}, required=False)
    wrong.check()


def check_fork(op: commands.Fork) -> None:
    """Check a fork."""
    wrong = SessionFields()
    wrong.ids({"context_id": op.context_id, "new_context_id": op.new_context_id})
    wrong.segment("new_context_id", op.new_context_id)
    wrong.ids({"before_invocation_id": op.before}, required=False)
    wrong.text("title", op.title)
    wrong.check()


def check_after(seq: int | None) -> None:
    """Check the number of an entry, 0 or None."""
    wrong = WrongFields()
    wrong.at_least("after_seq", seq or 0)
    wrong.check()


def check_filter(context_id: str, query: EntryFilter) -> None:
    """Check a listing of entries."""
    wrong = WrongFields()
    wrong.ids({"context_id": context_id})
    wrong.ids({"task_id": query.task_id, "message_id": query.message_id}, required=False)
    wrong.within("page_size", query.page_size, _PAGE)
    # The log itself is listed with its repetitions.
    if query.distinct and not query.effective:
        wrong.add("distinct", "requires effective")
    if query.skip < 0 or (query.skip and not query.effective):
        wrong.add("skip", "must be at least 0, and requires effective")
    if query.known and (query.newest_first or query.distinct or query.skip or not query.effective):
        wrong.add("known", "requires effective with the oldest first, without distinct and skip")
    # The lookup of a message id ignores the reading order.
    if query.message_id and query.effective:
        wrong.add("message_id", "cannot be combined with effective")
    wrong.check()


def check(op: commands.Operation) -> None:
    """Check an operation without the state of its session."""
    wrong = SessionFields()
    wrong.ids({"context_id": op.context_id})
    match op:
        case commands.Append():
            if op.create is not None:
                wrong.described("create.", op.create.agent, op.create.title, op.create.source)
            wrong.at_least("expected_version", op.expected_version)
            _append(wrong, op)
        case commands.Create():
            wrong.described("", op.agent, op.title, op.source)
        case commands.Update():
            if op.title is None and op.agent is None:
                wrong.add("title", "or agent is required")
            wrong.described("", op.agent or "", op.title or "")
            wrong.at_least("expected_version", op.expected_version)
        case commands.Rewind():
            wrong.ids({"before_invocation_id": op.entry.target})
            _cut(wrong, op)
        case commands.Undo():
            _cut(wrong, op)
        case commands.Touch():
            pass
        case commands.MarkApplied():
            wrong.at_least("seq", op.seq)
        case commands.Delete():
            wrong.at_least("expected_version", op.expected_version)
            if op.tasks_until:
                wrong.time("tasks_until", op.tasks_until)
    wrong.check()


def _append(wrong: SessionFields, op: commands.Append) -> None:
    entries = op.entries
    if len(entries) > MAX_ENTRIES:
        wrong.add("entries", f"must have at most {MAX_ENTRIES:,} elements")
        return
    if len(entries) > 1 and len({entry.id for entry in entries}) < len(entries):
        wrong.add("entries", "must have different ids")
    for index, entry in enumerate(entries):
        if not _is_plain(entry):
            wrong.entry(f"entries[{index}]", entry)
        if (own := op.own_ids.get(entry.id)) is not None:
            name = "own_answer_id" if index else "own_message_id"
            wrong.ids({name: own})
            if not entry.speaks:
                wrong.add(name, "requires a message in its entry")


def _cut(wrong: SessionFields, op: commands.Rewind | commands.Undo) -> None:
    wrong.ids({"id": op.entry.id})
    if op.entry.request_hash is not None:
        wrong.request_hash("request_hash", op.entry.request_hash)
    wrong.at_least("expected_version", op.expected_version)


def check_imported(entry: Entry, size: int) -> None:
    """Check an entry of an import; raise Invalid `ENTRY_TOO_LARGE` if it is larger than any request.

    `size`: bytes of its payload, without the state that the store adds to a rewind.
    """
    if size > MAX_ENTRY or len(entry.payload or b"") > REPLY_BYTES:
        raise Invalid(
            f"the entry has {len(entry.payload or b''):,} bytes; at most {MAX_ENTRY:,} are allowed",
            reason="ENTRY_TOO_LARGE",
        )
    wrong = SessionFields()
    wrong.time("entry.created_at", entry.created_at)
    if not _is_plain(entry):
        wrong.entry("entry", entry)
    wrong.check()


def _is_plain(entry: Entry) -> bool:
    """Return whether an entry passes a fast check. False: the entry needs the full check.

    All ids are checked at once: if the joined text is short and printable, each id is, too.
    """
    ids = entry.id + entry.invocation_id + entry.task_id + entry.task_invocation_id + entry.actor + entry.target
    return (
        len(ids) <= MAX_ID
        and ids.isprintable()
        and entry.id != ""
        and entry.kind in _PLAIN
        and (entry.request_hash is None or len(entry.request_hash) == HASH_BYTES)
        and entry.generation >= 0
    )


# Kinds of entries that need no target.
_PLAIN: Final = KINDS.keys() - {REWIND, VOID}


def check_deletion(where: str, task_id: str, turns: Sequence[str], entry_ids: Sequence[str], *, off: bool) -> None:
    """Check the void of a deleted task. Such a void must not take a void back."""
    wrong = WrongFields()
    wrong.ids({f"{where}.task_id": task_id})
    for field, names in (("invocation_ids", turns), ("entry_ids", entry_ids)):
        wrong.ids({f"{where}.deleted.{field}[{index}]": name for index, name in enumerate(names)})
    if off:
        wrong.add(f"{where}.off", "must not be set with a deleted task")
    wrong.check()


# The allowed payloads of each kind of entry; None: the payload may be missing. Other kinds may have any payload except
# a pushed history and a deletion.
_PAYLOADS: Final[dict[int, tuple[str | None, ...]]] = {
    MESSAGE: ("message",),
    OUTCOME: ("message", None),
    EVENT: ("data",),
    PUSHED: ("pushed",),
    VOID: ("deleted", "message", "data", None),
}
_ANY: Final = ("message", "data", None)


def check_payload(where: str, kind: int, payload: str | None) -> None:
    """Check that entries of this kind may have this payload, or no payload. Unknown kinds are ignored."""
    allowed = _PAYLOADS.get(kind, _ANY)
    if payload in allowed or kind not in KINDS:
        return
    names = " or ".join(name for name in allowed if name)
    entry = f"in an entry of kind {KINDS[kind]}"
    if payload is None:
        raise invalid({f"{where}.{names}": f"is required {entry}"})
    raise invalid({f"{where}.{payload}": f"must not be set {entry}, whose payload is {names}"})
