"""Validation of requests to the store: lengths, characters, and the payload of each kind of entry.

Each function raises Invalid with a reason and the wrong field.
"""

from collections.abc import Sequence
from typing import Final

from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import MAX_ID, has_control, is_segment
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.errors import no_segment
from taskplane.sessions.domain.session import EVENT, KINDS, MESSAGE, OUTCOME, PUSHED, REWIND, VOID, Entry
from taskplane.sessions.store import MAX_PAGE_SIZE, REPLY_BYTES, EntryFilter

MAX_TITLE: Final = 1000
MAX_ENTRIES: Final = 1000
# A year, in seconds.
MAX_AGE: Final = 366 * 86_400
# A hundred years.
MAX_SESSION_AGE: Final = 100 * MAX_AGE
DIGEST: Final = 32
# Bytes of payload that an entry may have, the limit of a request.
MAX_ENTRY: Final = 4 * 1024 * 1024


def check_id(field: str, value: str, *, required: bool = True) -> None:
    """Raise Invalid `BAD_ID` for a missing id, one of more than 255 characters, and one with a control character."""
    if not value:
        if required:
            raise Invalid(f"{field} is required", reason="BAD_ID", fields={field: "is required"})
    elif len(value) > MAX_ID:
        raise _invalid(field, f"must have at most {MAX_ID} characters", "BAD_ID")
    elif not value.isprintable() and has_control(value):
        raise _invalid(field, "must not contain control characters", "BAD_ID")


def check_text(field: str, value: str) -> None:
    """Raise Invalid `BAD_TEXT` for a text of more than 1,000 characters, and for U+0000, which no database stores."""
    if len(value) > MAX_TITLE:
        raise _invalid(field, f"must have at most {MAX_TITLE:,} characters", "BAD_TEXT")
    if "\0" in value:
        raise _invalid(field, "must not contain U+0000", "BAD_TEXT")


def check_page_size(size: int) -> None:
    """Raise Invalid `BAD_PAGE_SIZE` unless the size is 1 to 1,000."""
    if not 0 < size <= MAX_PAGE_SIZE:
        raise _invalid("page_size", f"must be 1 to {MAX_PAGE_SIZE:,}", "BAD_PAGE_SIZE")


def check_stage(context_id: str, import_id: str, number: int) -> None:
    """Raise Invalid if no page of an import could have this session, import and number."""
    check_id("context_id", context_id)
    check_id("import_id", import_id)
    if number < 1:
        raise Invalid("number must be at least 1", fields={"number": "must be at least 1"})


def check_new_session(field: str, context_id: str) -> None:
    """Raise Invalid `BAD_ID` if no client could name the session in a path."""
    if not is_segment(context_id):
        raise no_segment(field)


def check_place(tenant: str, owner: str, context_id: str, at: int) -> None:
    """Raise Invalid unless these can be the fields of a session that `expired` or `unapplied` returned."""
    check_text("after.tenant", tenant)
    check_text("after.owner", owner)
    check_text("after.context_id", context_id)
    check_time("after", at)


def check_age(min_age: float, limit: int, most: int = MAX_AGE) -> None:
    """Raise Invalid `BAD_AGE` unless the age is 0 to `most`, `BAD_LIMIT` unless the limit is 1 to 1,000."""
    if not 0 <= min_age <= most:
        raise _invalid("min_age", f"must be 0 to {most:,} seconds", "BAD_AGE")
    check_limit(limit)


def check_limit(limit: int) -> None:
    """Raise Invalid `BAD_LIMIT` unless the limit is 1 to 1,000."""
    if not 0 < limit <= MAX_PAGE_SIZE:
        raise _invalid("limit", f"must be 1 to {MAX_PAGE_SIZE:,}", "BAD_LIMIT")


def check_time(field: str, micros: int) -> None:
    """Raise Invalid `BAD_TIME` unless `micros` is after 1970 and can be stored."""
    if not 0 < micros < 1 << 62:
        raise _invalid(field, "must be a time after 1970", "BAD_TIME")


def check_fork(op: commands.Fork) -> None:
    """Raise Invalid for a fork that could not be stored."""
    check_id("context_id", op.context_id)
    check_id("new_context_id", op.new_context_id)
    check_new_session("new_context_id", op.new_context_id)
    check_id("before_invocation_id", op.before, required=False)
    check_text("title", op.title)


def check_after(seq: int | None) -> None:
    """Raise Invalid unless `seq` is the number of an entry, 0, or None."""
    if seq is not None and seq < 0:
        raise Invalid("after_seq must not be negative", fields={"after_seq": "must not be negative"})


def check_filter(query: EntryFilter) -> None:
    """Raise Invalid for a filter that no listing could have: `BAD_ID`, `BAD_PAGE_SIZE` or `BAD_FILTER`."""
    check_id("task_id", query.task_id, required=False)
    check_id("message_id", query.message_id, required=False)
    check_page_size(query.page_size)
    # The log itself is listed with its repetitions.
    if query.distinct and not query.effective:
        raise _invalid("distinct", "requires effective", "BAD_FILTER")
    if query.skip < 0 or (query.skip and not query.effective):
        raise _invalid("skip", "must not be negative, and requires effective", "BAD_FILTER")
    if query.known and (query.newest_first or query.distinct or query.skip or not query.effective):
        raise _invalid("known", "requires effective with the oldest first, without distinct and skip", "BAD_FILTER")
    # The lookup knows nothing of the order in which they are read.
    if query.message_id and query.effective:
        raise _invalid("message_id", "cannot be combined with effective", "BAD_FILTER")


def _invalid(field: str, rule: str, reason: str) -> Invalid:
    return Invalid(f"{field} {rule}", reason=reason, fields={field: rule})


def check(op: commands.Operation) -> None:
    """Raise Invalid for an operation that could not be stored whatever the state of its session."""
    check_id("context_id", op.context_id)
    match op:
        case commands.Append():
            if op.create is not None:
                _check_new("create.", op.create.agent, op.create.title, op.create.source)
            _check_version(op.expected_version)
            _check_entries(op.entries)
            _check_own_ids(op)
        case commands.Create():
            _check_new("", op.agent, op.title, op.source)
        case commands.Update():
            if op.title is None and op.agent is None:
                raise Invalid(
                    "title or agent is required",
                    reason="NOTHING_TO_CHANGE",
                    fields={"title": "or agent is required"},
                )
            _check_new("", op.agent or "", op.title or "", "")
            _check_version(op.expected_version)
        case commands.Rewind():
            check_id("before_invocation_id", op.entry.target)
            _check_cut(op.entry, op.expected_version)
        case commands.Undo():
            _check_cut(op.entry, op.expected_version)
        case commands.Touch():
            pass
        case commands.MarkApplied():
            if op.seq < 0:
                raise Invalid("seq must not be negative", fields={"seq": "must not be negative"})
        case commands.Delete():
            _check_version(op.expected_version)
            if op.tasks_until:
                check_time("tasks_until", op.tasks_until)


def _check_own_ids(op: commands.Append) -> None:
    for entry in op.entries:
        if (own := op.own_ids.get(entry.id)) is None:
            continue
        name = "own_message_id" if entry is op.entries[0] else "own_answer_id"
        check_id(name, own)
        if not entry.speaks:
            raise Invalid(
                f"{name} requires a message in entry {entry.id}",
                fields={name: "requires a message in its entry"},
            )


def _check_cut(entry: Entry, expected_version: int) -> None:
    check_id("id", entry.id)
    if entry.request_hash is not None and len(entry.request_hash) != DIGEST:
        raise Invalid(
            f"request_hash must have {DIGEST} bytes", fields={"request_hash": f"must have {DIGEST} bytes (SHA-256)"}
        )
    _check_version(expected_version)


def _check_version(expected: int) -> None:
    if expected < 0:
        raise Invalid("expected_version must not be negative", fields={"expected_version": "must not be negative"})


def _check_new(prefix: str, agent: str, title: str, source: str) -> None:
    check_id(f"{prefix}agent", agent, required=False)
    check_text(f"{prefix}title", title)
    check_text(f"{prefix}source", source)


def _check_entries(entries: Sequence[Entry]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Invalid(
            f"entries must have at most {MAX_ENTRIES:,} elements, not {len(entries):,}",
            reason="TOO_MANY_ENTRIES",
            fields={"entries": f"must have at most {MAX_ENTRIES:,} elements"},
        )
    if len(entries) > 1 and len({entry.id for entry in entries}) < len(entries):
        raise _invalid("entries", "must have different ids", "DUPLICATE_ID")
    for index, entry in enumerate(entries):
        if not _is_plain(entry):
            _check_entry(f"entries[{index}]", entry)


def check_imported(entry: Entry, size: int) -> None:
    """Raise Invalid for an entry that could not be stored, `ENTRY_TOO_LARGE` for one that would fit no request.

    `size`: bytes of its payload, without the state that the store adds to a rewind.
    """
    if size > MAX_ENTRY or len(entry.payload or b"") > REPLY_BYTES:
        raise Invalid(
            f"the entry has {len(entry.payload or b''):,} bytes; at most {MAX_ENTRY:,} are allowed",
            reason="ENTRY_TOO_LARGE",
        )
    if not _is_plain(entry):
        _check_entry("the entry", entry)


def _is_plain(entry: Entry) -> bool:
    """Return whether an entry is valid at first sight; False means that it needs a closer look.

    All its ids are checked at once: if together they are short and printable, each of them is.
    """
    ids = entry.id + entry.invocation_id + entry.task_id + entry.task_invocation_id + entry.actor + entry.target
    return (
        len(ids) <= MAX_ID
        and ids.isprintable()
        and entry.id != ""
        and entry.kind in _PLAIN
        and (entry.request_hash is None or len(entry.request_hash) == DIGEST)
        and entry.generation >= 0
    )


# Kinds of entries that need no target.
_PLAIN: Final = KINDS.keys() - {REWIND, VOID}


def _check_entry(where: str, entry: Entry) -> None:
    if entry.kind not in KINDS:
        raise Invalid(
            f"{where} has an unknown kind",
            reason="BAD_KIND",
            fields={f"{where}.kind": "must be one of " + ", ".join(KINDS.values())},
        )
    check_id(f"{where}.id", entry.id)
    check_id(f"{where}.invocation_id", entry.invocation_id, required=False)
    check_id(f"{where}.task_id", entry.task_id, required=False)
    check_id(f"{where}.task_invocation_id", entry.task_invocation_id, required=False)
    check_id(f"{where}.actor", entry.actor, required=False)
    check_id(f"{where}.target", entry.target, required=entry.kind in (REWIND, VOID))
    if entry.request_hash is not None and len(entry.request_hash) != DIGEST:
        raise Invalid(
            f"the request hash of {where} must have {DIGEST} bytes",
            fields={f"{where}.request_hash": f"must have {DIGEST} bytes (SHA-256)"},
        )
    if entry.generation < 0:
        raise Invalid(
            f"the generation of {where} must not be negative",
            fields={f"{where}.generation": "must not be negative"},
        )


def check_deletion(where: str, task_id: str, turns: Sequence[str], entry_ids: Sequence[str], *, off: bool) -> None:
    """Raise Invalid for the void of a deleted task that could not be stored, or that takes a void back."""
    check_id(f"{where}.task_id", task_id)
    for field, names in (("invocation_ids", turns), ("entry_ids", entry_ids)):
        for name in names:
            check_id(f"{where}.deleted.{field}", name)
    if off:
        raise Invalid(
            f"{where} cannot undo a void and delete a task together",
            reason="BAD_PAYLOAD",
            fields={f"{where}.off": "must not be set"},
        )


# The payloads that an entry of a kind may have; None: it may have none. Kinds that are missing here may have any but a
# pushed history and a deletion.
_PAYLOADS: Final[dict[int, tuple[str | None, ...]]] = {
    MESSAGE: ("message",),
    OUTCOME: ("message", None),
    EVENT: ("data",),
    PUSHED: ("pushed",),
    VOID: ("deleted", "message", "data", None),
}
_ANY: Final = ("message", "data", None)


def check_payload(index: int, kind: int, payload: str | None) -> None:
    """Raise Invalid `BAD_PAYLOAD` if entries of this kind have another payload, or need one. Ignores unknown kinds."""
    allowed = _PAYLOADS.get(kind, _ANY)
    if payload in allowed or kind not in KINDS:
        return
    names = " or ".join(name or "no payload" for name in allowed)
    raise Invalid(
        f"an entry of kind {KINDS[kind]} must have {names}, not {payload or 'no payload'}",
        reason="BAD_PAYLOAD",
        fields={f"entries[{index}].{payload or allowed[0]}": f"must be {names}"},
    )
