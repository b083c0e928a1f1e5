"""The kinds of events, a row of one table for each. Triggers, trimming, imports and the bell of watchers use it.

To add a kind: the number in `tasks.proto`, a row here, the draft that writes it, and the fold if the task shows it.
"""

from typing import Final, NamedTuple


class Kind(NamedTuple):
    """The rules of one kind of event.

    `payloads`: the fields of `StreamResponse` that may have its content; empty: it has no content there.
    `data`: the field of `Change` and of `Event` that has its content, at most `most_bytes` of an executor. No rule
    reads them, clients never see them, and no export contains them: an agent trusts them.
    `has_state`: it names a state; None: only with a `status_update`.
    `begins_turn`: it records an invocation of the task's owner, which a repeated call finds again.
    `mark`: it tells how a session shows the task, and may follow the end; it says nothing of the task.
    `lasting`: it stays in a trimmed log.
    `rings`: watchers of the session are notified of it, whether the state changed or not.
    `may_speak`: it may give the task a message that its session keeps.
    """

    number: int
    payloads: tuple[str, ...] = ()
    data: str = ""
    most_bytes: int = 0
    has_state: bool | None = False
    begins_turn: bool = False
    mark: bool = False
    lasting: bool = False
    rings: bool = False
    may_speak: bool = False


# Numbers as they are stored; a test compares them with the contract.
CREATED: Final = 1
MESSAGE: Final = 2
STATUS: Final = 3
ARTIFACT: Final = 4
REPLACED: Final = 5
SUPERSEDED: Final = 6
RESTORED: Final = 7
STATUS_TEXT: Final = 8
CHECKPOINT: Final = 9

_KINDS: Final = (
    Kind(CREATED, ("task",), has_state=True, begins_turn=True, lasting=True, may_speak=True),
    Kind(MESSAGE, ("message", "status_update"), has_state=None, begins_turn=True, lasting=True, may_speak=True),
    Kind(STATUS, ("status_update",), has_state=True, may_speak=True),
    Kind(ARTIFACT, ("artifact_update",)),
    Kind(REPLACED, rings=True),
    Kind(SUPERSEDED, mark=True, lasting=True, rings=True),
    Kind(RESTORED, mark=True, lasting=True, rings=True),
    Kind(STATUS_TEXT, ("status_update",), has_state=True),
    Kind(CHECKPOINT, data="checkpoint", most_bytes=64 * 1024),
)
KINDS: Final = {kind.number: kind for kind in _KINDS}

MARKS: Final = frozenset(kind.number for kind in _KINDS if kind.mark)
LASTING: Final = frozenset(kind.number for kind in _KINDS if kind.lasting)
TURNS: Final = frozenset(kind.number for kind in _KINDS if kind.begins_turn)
RINGING: Final = frozenset(kind.number for kind in _KINDS if kind.rings)
DATA: Final = {kind.data: kind for kind in _KINDS if kind.data}
STATUSES: Final = frozenset(kind.number for kind in _KINDS if kind.payloads == ("status_update",))
