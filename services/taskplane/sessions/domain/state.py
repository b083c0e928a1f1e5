"""The state of a session, computed from the events of an agent runtime by the rules of ADK. No I/O.

An event changes the state by its `actions.state_delta`. Keys with the prefix "temp:" are not kept. Keys with "user:"
belong to the owner, keys with "app:" to all owners, both for one agent. All other keys belong to the session. Null
removes a key. The state of a session is computed from its events in effect, in the order of their numbers. So a rewind
restores the earlier state. The states of an owner and of an agent are never rewound.

A runtime that rewinds by itself writes an event with the changes that restore its own view of the state. The event is
not in effect, so the changes are left out. For writes of ADK the result is the same, and stays right after an undo of
the rewind.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value

from taskplane.runtime.errors import Invalid
from taskplane.runtime.struct_values import Filler
from taskplane.runtime.validation import is_id
from taskplane.sessions.domain.payload import pack_state, unpack_state

TEMP: Final = "temp:"
USER: Final = "user:"
APP: Final = "app:"
_MOST: Final = 1 << 63

# A serialized `Value`; None removes the key.
Values = Mapping[str, bytes | None]


class Delta(NamedTuple):
    """The change of the state by one event.

    `own`: the changes of the session, in the form of `payload.pack_state`, with the artifact versions of the event.
    `user`, `app`: the changes of the wider scopes, by key without prefix.
    """

    own: bytes
    user: Values
    app: Values


def read_delta(index: int, state: object, artifacts: object) -> Delta | None:
    """Return the changes of entry number `index` of a request, or None if there are none.

    `state`, `artifacts`: the deltas in the JSON of the event. Values that cannot be stored are converted as in
    messages: U+FFFD, null, and the text of a number or of data with too deep nesting. Raise Invalid `BAD_STATE` if
    `state` is not an object.
    """
    own: dict[str, Value] = {}
    versions: dict[str, int] = {}
    user: dict[str, bytes | None] = {}
    app: dict[str, bytes | None] = {}
    if state is not None:
        for key, value in _checked(index, state).fields.items():
            if key.startswith(USER):
                user[key.removeprefix(USER)] = _stored(value)
            elif key.startswith(APP):
                app[key.removeprefix(APP)] = _stored(value)
            elif not key.startswith(TEMP):
                own[key] = value
    if isinstance(artifacts, dict):
        for name, version in cast("dict[str, Any]", artifacts).items():
            # A rewind does not restore the keys of the owner.
            if not name.startswith(USER) and type(version) is int and abs(version) < _MOST and _is_text(name):
                versions[name] = version
    packed = pack_state(own, versions)
    return Delta(packed, user, app) if packed or user or app else None


def _checked(index: int, state: object) -> Struct:
    if not isinstance(state, dict):
        raise _bad(index, "must be an object")
    found = Struct()
    Filler().fill_struct(found, cast("dict[str, Any]", state))
    for key in found.fields:
        if key.startswith((USER, APP)) and not is_id(key):
            raise _bad(index, "must have keys of users and apps with at most 255 characters and no control characters")
    return found


def _bad(index: int, rule: str) -> Invalid:
    return Invalid(
        f"the state delta of entries[{index}] is invalid",
        reason="BAD_STATE",
        fields={f"entries[{index}].data": f"actions.state_delta {rule}"},
    )


def _is_text(value: str) -> bool:
    return value.isprintable() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _stored(value: Value) -> bytes | None:
    return None if value.HasField("null_value") else value.SerializeToString()


class State:
    """The state of a session after some events. `values`: by key. `versions`: the newest version of each artifact."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.versions: dict[str, int] = {}

    def add(self, own: bytes) -> None:
        """Apply one more event. `own`: see `Delta`."""
        values, versions = unpack_state(own)
        for key, value in values.items():
            if value.HasField("null_value"):
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self.versions.update(versions)


# The number of an event, and its changes of the session (`Delta.own`).
Change = tuple[int, bytes]


def fold(changes: Iterable[Change], in_effect: frozenset[int]) -> State:
    """Return the state computed from the events in effect. `changes`: the changes of all events, in the order of their
    numbers."""
    state = State()
    for seq, own in changes:
        if seq in in_effect:
            state.add(own)
    return state


def restoring_change(changes: Iterable[Change], now: frozenset[int], then: frozenset[int]) -> bytes:
    """Return the changes from the state of the events `now` to the state of the events `then`, with its artifact
    versions.

    `now`, `then`: the events in effect before and after a rewind. The result has the form of `payload.pack_state`. The
    rewind carries the result.
    """
    if not now and not then:
        return b""
    was, is_to_be = State(), State()
    for seq, own in changes:
        if seq in now:
            was.add(own)
        if seq in then:
            is_to_be.add(own)
    changed = {key: value for key, value in is_to_be.values.items() if was.values.get(key) != value}
    gone = dict.fromkeys(was.values.keys() - is_to_be.values.keys(), Value(null_value=NULL_VALUE))
    return pack_state({**changed, **gone}, is_to_be.versions)
