"""Filters of the task log, and the pages with which it answers them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.infos import Failure, Info
from taskplane.tasks.domain.task import Event, Row


class TenantTask(NamedTuple):
    """A task as operators see it. `lease_until`: the end of its lease (microseconds); None: it has no lease.

    `failure` is empty unless it failed or was rejected, and for a document. `asked`: the beginning of the text of its
    first message; empty if there is no text, for a very large message, and for a document.
    """

    row: Row
    lease_until: int | None
    failure: Failure
    asked: str


class TenantPage(NamedTuple):
    """A page of tasks of a tenant. `next_page_token` is empty on the last page."""

    tasks: Sequence[TenantTask]
    next_page_token: str


# The page of a watch, the most that a reader takes from the log at once.
PAGE_EVENTS: Final = 64
PAGE_BYTES: Final = 256 * 1024
MAX_PAGE_SIZE: Final = 100
MAX_EVENTS: Final = 1000
MAX_INFOS: Final = 1000
MAX_TENANT_TASKS: Final = 1000
MOST_COUNTED: Final = 10_000
"""Matches of a filter that are counted: a total of more is not worth reading them all."""
MAX_MESSAGES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """A filter of the caller's tasks; an empty field does not filter.

    `status_after` is inclusive, microseconds since 1970. `by_creation`: oldest creation first; otherwise newest state
    change first. `superseded`: also the tasks that a rewind cut. `content`: False if the rows are enough; then no task
    is read or folded.
    """

    context_id: str = ""
    agent: str = ""
    state: int = 0
    status_after: int = 0
    by_creation: bool = False
    page_size: int = 50
    page_token: str = ""
    superseded: bool = False
    content: bool = True

    @property
    def bound(self) -> tuple[str | int, ...]:
        """Return the filters that a page token is bound to."""
        return self.context_id, self.agent, self.state, self.status_after, self.by_creation, self.superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFilter:
    """A filter of the tasks of a tenant, newest change of state first; an empty field does not filter.

    `states`: at least one. `executor`: the process that holds the lease.
    """

    states: Sequence[int]
    agent: str = ""
    owner: str = ""
    executor: str = ""
    page_size: int = 50
    page_token: str = ""

    @property
    def bound(self) -> tuple[str | int, ...]:
        """Return the filters that a page token is bound to."""
        return "tenant", self.agent, self.owner, self.executor, *self.states


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoFilter:
    """A filter of the tasks of a session, oldest first unless `newest_first`.

    `superseded`: also the tasks that a rewind cut. `latest_incomplete`: only the newest that has not ended.
    """

    context_id: str
    superseded: bool = False
    latest_incomplete: bool = False
    newest_first: bool = False
    page_size: int = MAX_INFOS
    page_token: str = ""

    @property
    def bound(self) -> tuple[str | int, ...]:
        """Return the filters that a page token is bound to."""
        return "infos", self.context_id, self.superseded, self.newest_first


@dataclass(frozen=True, slots=True)
class InfoPage:
    """A page of task infos. `next_page_token` is empty on the last page."""

    infos: Sequence[Info]
    next_page_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter of the messages of a session's tasks, newest page first.

    `before`: only messages before the one with this id; "": all. `shown`: ids of messages that are shown already, in
    their order; pages count them, and tell where they are. `ends`: by the invocation that created a
    task, or that a document named last, the number of `shown` before its other messages; the messages of other tasks
    follow all of `shown`.
    `documents_only`: only the messages of documents.
    """

    context_id: str
    page_size: int = 100
    before: str = ""
    shown: Sequence[str] = ()
    ends: Mapping[str, int] = field(default_factory=dict[str, int])
    documents_only: bool = False


class MessagePage(NamedTuple):
    """A page of messages, oldest first. `more`: there are earlier messages.

    Of those that are shown already the page has `shown_count`, from index `first_shown` on; `shown_before` tells of
    each message how many of them come before it.
    """

    messages: Sequence[a2a.Message]
    more: bool
    first_shown: int = 0
    shown_count: int = 0
    shown_before: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of tasks. `tasks` has one folded task per row, or nothing if the filter asked for no content.

    `next_page_token` is empty on the last page. `total` is the number of matches when the first page was read, at most
    `MOST_COUNTED`.
    """

    rows: Sequence[Row]
    tasks: Sequence[a2a.Task]
    next_page_token: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of the events of a task; an empty field does not filter. `limit` is 1 to `MAX_EVENTS`.

    `status_messages`: only events with a status text, by a StatusWriter or by the agent itself.
    """

    kinds: Sequence[int] = ()
    speaking: bool = False
    status_messages: bool = False
    after_generation: int = 0
    newest_first: bool = False
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Page:
    """Events that follow a generation, and the row that they were read with."""

    row: Row
    events: Sequence[Event]
