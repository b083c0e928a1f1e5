"""A page of the messages of a session's tasks, which reads changed tasks only.

Of a task that was read before, the ids of its messages are remembered for its generation, which the salt of the row
tells from that of every other row. Each read asks for the generations that its own transaction finds, so nothing
remembered is ever stale; and of the messages themselves it reads only those of the tasks on its page.
"""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from cachetools import LRUCache
from sqlalchemy import Connection, bindparam, select

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.message_ids import Content
from taskplane.runtime.validation import invalid
from taskplane.tasks.domain.conversation import SHOWN, between, message_ids, messages_of, without_repeats
from taskplane.tasks.domain.documents import Compared, compare, said_under
from taskplane.tasks.domain.task import DOCUMENT, Scope
from taskplane.tasks.pages import MAX_MESSAGES, MessageFilter, MessagePage
from taskplane.tasks.sql.contents import contents
from taskplane.tasks.sql.packing import unpack
from taskplane.tasks.sql.pages import check_page_size
from taskplane.tasks.sql.reads import owned, owner
from taskplane.tasks.sql.statements import IN_UIDS
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.tables import task

# The maximum number of ids of messages and tasks in all sessions together. An id takes about a hundred bytes.
_MOST_IDS: Final = 300_000
# Number of tasks read at once with their content, and their bytes.
_SOME: Final = 256
_SOME_BYTES: Final = 16 * 1024 * 1024
# A page ends early beyond so many bytes.
_PAGE_BYTES: Final = 8 * 1024 * 1024


class _Outline(NamedTuple):
    """A task of the session, in columns of its row."""

    uid: str
    salt: str
    generation: int
    snapshot_generation: int
    snapshot_bytes: int
    folded_bytes: int
    event_bytes: int
    origin: str
    invocation_id: str | None
    cut_turns: str | None

    @property
    def is_folded(self) -> bool:
        """Return whether the snapshot is the task as it is shown."""
        return self.generation == self.snapshot_generation and self.cut_turns is None

    @property
    def bytes(self) -> int:
        return self.snapshot_bytes + self.event_bytes - self.folded_bytes


_ALL: Final = (
    owned(select(*(task.c[name] for name in _Outline._fields)))
    .where(task.c.context_id == bindparam("context_id"))
    .order_by(task.c.created_at, task.c.id)
)
_OUTLINES: Final = _ALL.where(task.c.superseded.is_(False))
_DOCUMENTS: Final = _OUTLINES.where(task.c.origin == DOCUMENT)
_ALL_DOCUMENTS: Final = _ALL.where(task.c.origin == DOCUMENT)
_OTHERS: Final = _ALL.where(task.c.id != bindparam("document"))
_SNAPSHOTS: Final = select(task.c.uid, task.c.snapshot).where(IN_UIDS)

# Tenant, owner and context id, and whether only documents were read.
_Key = tuple[str, str, str, bool]
# The salt and the generation of a task, and the ids of its messages then.
_Said = tuple[str, int, Sequence[str]]


class MessageIdCache:
    """The ids of the messages of tasks, of the sessions that were read last. For any number of threads.

    Without it the first page of a long session takes 2.8 times as long (`bench`).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: LRUCache[_Key, Mapping[str, _Said]] = LRUCache(_MOST_IDS, getsizeof=_weight)

    def find(self, key: _Key) -> Mapping[str, _Said]:
        """Return the known tasks of a session, by uid; read only."""
        with self._lock:
            return self._sessions.get(key, {})

    def keep(self, key: _Key, said: Mapping[str, _Said]) -> None:
        """Replace the known tasks of a session. A session that is too large is not kept."""
        with self._lock:
            self._sessions.pop(key, None)
            if _weight(said) <= self._sessions.maxsize:
                self._sessions[key] = said


def _weight(said: Mapping[str, _Said]) -> int:
    return sum(1 + len(ids) for _, _, ids in said.values())


def list_messages(conn: Connection, scope: Scope, query: MessageFilter, cache: MessageIdCache) -> MessagePage:
    """Implement `TaskLog.messages`."""
    check_page_size(query.page_size, MAX_MESSAGES)
    key = (scope.tenant, scope.owner, query.context_id, query.documents_only)
    outlines: list[_Outline] = []
    if not has_nul(query.context_id):
        wanted = _DOCUMENTS if query.documents_only else _OUTLINES
        rows = conn.execute(wanted, {**owner(scope), "context_id": query.context_id})
        outlines = [_Outline._make(row) for row in rows]
    said = _ids(conn, outlines, key, cache)
    ends = [query.ends.get(one.invocation_id or "", len(query.shown)) for one in outlines]
    places = between(without_repeats(said, set(query.shown)), ends, len(query.shown))

    def id_at(at: int) -> str:
        number, place = places[at]
        return query.shown[place] if number == SHOWN else said[number][place]

    end = len(places)
    if query.before:
        end = next((at for at in range(end) if id_at(at) == query.before), -1)
        if end < 0:
            raise invalid({"before": "must be the id of a message of this session"}, reason="NO_SUCH_MESSAGE")
    start = max(0, end - query.page_size)
    while start > 0 and not id_at(start):
        start -= 1
    own = [at for at in range(start, end) if places[at][0] != SHOWN]
    page = _messages(conn, outlines, [places[at] for at in own])
    if len(page) < len(own):
        own = own[-len(page) :]
        start = own[0]
    shown = [place for number, place in places[start:end] if number == SHOWN]
    before = [at - start - index for index, at in enumerate(own)]
    return MessagePage(page, start > 0, shown[0] if shown else 0, len(shown), before)


def compare_documents(conn: Connection, scope: Scope, context_id: str, messages: Sequence[a2a.Message]) -> Compared:
    """Implement `TaskLog.compare`."""
    return compare(messages, () if has_nul(context_id) else documents_of_session(conn, scope, context_id))


def said_under_ids_of(
    conn: Connection, scope: Scope, document: a2a.Task, cache: MessageIdCache
) -> Mapping[str, Content]:
    """Implement `TaskLog.said_under_ids_of`: by the newest task that has each, since all that have it say the same."""
    context_id = document.context_id
    wanted = set(message_ids(document)) - {""}
    if not wanted or not context_id or has_nul(context_id) or has_nul(document.id):
        return {}
    rows = conn.execute(_OTHERS, {**owner(scope), "context_id": context_id, "document": document.id})
    outlines = [_Outline._make(row) for row in rows]
    said = _ids(conn, outlines, (scope.tenant, scope.owner, context_id, False), cache)
    found: dict[str, Content] = {}
    for one, ids in zip(reversed(outlines), reversed(said), strict=True):
        if not wanted.isdisjoint(ids):
            task = contents(conn, [one.uid], artifacts=False)[one.uid].folded()
            found.update(said_under(task, wanted, one.invocation_id))
            wanted -= found.keys()
    return found


def documents_of_session(
    conn: Connection, scope: Scope, context_id: str, without: str = ""
) -> Iterator[tuple[a2a.Task, str | None]]:
    """Yield the stored documents of a session, also the hidden ones, each with the turn that it has without turn ids.

    `without`: the uid of a document that is left out.
    """
    rows = conn.execute(_ALL_DOCUMENTS, {**owner(scope), "context_id": context_id})
    outlines = [_Outline._make(row) for row in rows]
    for some in _in_parts([one for one in outlines if one.uid != without]):
        tasks = contents(conn, [one.uid for one in some])
        for one in some:
            yield tasks[one.uid].stored(), one.invocation_id


def _ids(conn: Connection, outlines: Sequence[_Outline], key: _Key, cache: MessageIdCache) -> Sequence[Sequence[str]]:
    """Return the ids of the messages of each task."""
    known = cache.find(key)
    said: dict[str, _Said] = {}
    unknown: list[_Outline] = []
    for one in outlines:
        before = known.get(one.uid)
        if before is not None and before[0] == one.salt and before[1] == one.generation:
            said[one.uid] = before
        else:
            unknown.append(one)
    for some in _in_parts(unknown):
        for uid, ids in _read_ids(conn, some).items():
            said[uid] = ("", 0, ids)
    if unknown:
        for one in unknown:
            said[one.uid] = (one.salt, one.generation, said[one.uid][2])
        cache.keep(key, said)
    return [said[one.uid][2] for one in outlines]


def _read_ids(conn: Connection, outlines: Sequence[_Outline]) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for uid, snapshot in conn.execute(_SNAPSHOTS, {"uids": [one.uid for one in outlines if one.is_folded]}):
        found[uid] = message_ids(pb.TaskOutline.FromString(unpack(snapshot)))
    unfolded = [one.uid for one in outlines if not one.is_folded]
    for uid, content in contents(conn, unfolded, artifacts=False).items():
        found[uid] = message_ids(content.folded())
    return found


def _in_parts(outlines: Sequence[_Outline]) -> Iterator[Sequence[_Outline]]:
    """Return as many at once as may be read at once."""
    part: list[_Outline] = []
    size = 0
    for one in outlines:
        if part and (len(part) == _SOME or size + one.bytes > _SOME_BYTES):
            yield part
            part, size = [], 0
        part.append(one)
        size += one.bytes
    if part:
        yield part


def _messages(
    conn: Connection, outlines: Sequence[_Outline], places: Sequence[tuple[int, int]]
) -> Sequence[a2a.Message]:
    """Return the messages at these places, oldest first, or the newest of them where they are large."""
    wanted: dict[int, list[int]] = {}
    for number, place in reversed(places):
        wanted.setdefault(number, []).append(place)
    found: list[a2a.Message] = []
    size = 0
    by_uid = {outlines[number].uid: places_ for number, places_ in wanted.items()}
    for some in _in_parts([outlines[number] for number in wanted]):
        tasks = contents(conn, [one.uid for one in some], artifacts=False)
        for one in some:
            messages = messages_of(tasks[one.uid].folded())
            for place in by_uid[one.uid]:
                size += messages[place].ByteSize()
                if found and size > _PAGE_BYTES and found[-1].message_id:
                    return found[::-1]
                found.append(messages[place])
    return found[::-1]
