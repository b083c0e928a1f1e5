"""The state that events make: which keys are kept where, and that it is what ADK would have, whatever is rewound."""

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Value
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.thorough import examples

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain.history import events_in_effect, rewind_line
from taskplane.sessions.domain.payload import read_event, unpack_state
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import EVENT, REWIND, UNDO
from taskplane.sessions.domain.state import Delta, State, fold, read_delta, restoring_change

Json = dict[str, Any]


def delta_of(data: str) -> Delta | None:
    said = read_event(data)
    return read_delta(0, said.state_delta, said.artifact_delta)


def plain(values: dict[str, Value]) -> Json:
    return {key: MessageToDict(value) for key, value in values.items()}


def own(state: Json, artifacts: dict[str, int] | None = None) -> bytes:
    delta = read_delta(0, state, artifacts)
    return delta.own if delta is not None else b""


def shown(state: State) -> Json:
    return plain(state.values)


def test_keys_go_where_their_prefix_says() -> None:
    """R12: as ADK has it."""
    data = {"a": 1, "temp:b": 2, "user:c": [3], "user:d": None, "app:e": {"f": 4}, "g": None}
    for spelling in ("state_delta", "stateDelta"):
        delta = delta_of(json.dumps({"actions": {spelling: data}}))
        assert delta is not None
        change = pb.Entry.FromString(delta.own)
        assert MessageToDict(change.state_delta) == {"a": 1.0, "g": None}
        assert delta.user.keys() == {"c", "d"}
        assert plain({"c": Value.FromString(delta.user["c"] or b"")}) == {"c": [3.0]}
        assert delta.user["d"] is None
        assert plain({"e": Value.FromString(delta.app["e"] or b"")}) == {"e": {"f": 4.0}}


@pytest.mark.parametrize(
    "data",
    [
        "no json",
        "[]",
        "{}",
        '{"actions": null}',
        '{"actions": []}',
        '{"actions": {"state_delta": null}}',
        '{"actions": {"state_delta": {}}}',
        '{"actions": {"state_delta": {"temp:a": 1}}}',
        '{"actions": {"artifact_delta": ["a"]}}',
        '{"actions": {"artifact_delta": {"a": "1", "user:b": 1, "c": true, "d": 1e9, "e": 99999999999999999999}}}',
        json.dumps({"actions": {"artifact_delta": {"\ud800": 1}}}),
        '{"state_delta": {"a": 1}}',
        '{"score": NaN}',
    ],
)
def test_an_event_without_a_state_delta_changes_nothing(data: str) -> None:
    assert delta_of(data) is None


@pytest.mark.parametrize(
    "delta",
    [
        "[]",
        "0",
        "false",
        '""',
        '"text"',
        '{"user:' + "x" * 300 + '": 1}',
    ],
)
def test_a_delta_that_cannot_be_kept_is_refused(delta: str) -> None:
    with pytest.raises(Invalid) as refused:
        delta_of('{"actions": {"state_delta": ' + delta + "}}")
    assert (refused.value.reason, list(refused.value.fields)) == ("BAD_STATE", ["entries[0].data"])


@pytest.mark.parametrize(
    ("delta", "kept"),
    [
        ('{"a": NaN, "b": 1}', {"a": None, "b": 1}),
        ('{"a": [-Infinity]}', {"a": [None]}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"\\ud800\\u0000": 1}', {"\ufffd\ufffd": 1}),
        ('{"a": 1' + "0" * 400 + "}", {"a": "1" + "0" * 400}),
        ('{"a": ' + "1" * 5000 + "}", {"a": "1" * 5000}),
        ('{"a": 9007199254740993}', {"a": "9007199254740993"}),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", None),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", None),
    ],
)
def test_values_that_a_state_cannot_hold_are_converted(delta: str, kept: Json | None) -> None:
    """T3: as in messages. The event itself stays unchanged."""
    found = delta_of('{"actions": {"state_delta": ' + delta + "}}")
    assert found is not None
    state = plain(dict(unpack_state(found.own)[0]))
    if kept is not None:
        assert state == kept
    else:
        assert state["a"][0][0][0] and json.dumps(state["a"]).count("[") == json.loads(delta)["a"].__repr__().count("[")


def test_null_removes_and_the_newest_value_and_version_stay() -> None:
    changes = [
        (1, own({"a": 1, "b": 2}, {"f": 0, "g": 0})),
        (2, own({"a": None, "c": None}, {"f": 1})),
        (3, own({"b": 3})),
    ]
    state = fold(changes, frozenset({1, 2, 3}))
    assert (shown(state), state.versions) == ({"b": 3.0}, {"f": 1, "g": 0})
    assert shown(fold(changes, frozenset({1, 3}))) == {"a": 1.0, "b": 3.0}


def test_a_rewind_has_the_changes_that_restore_the_state_and_the_earlier_versions() -> None:
    """R4: as ADK computes them."""
    changes = [
        (1, own({"same": 1, "changed": 1, "gone": 1}, {"f": 0})),
        (2, own({"changed": 2, "gone": None, "new": 2}, {"f": 1, "g": 0})),
    ]
    found = pb.Entry.FromString(restoring_change(iter(changes), frozenset({1, 2}), frozenset({1})))
    assert MessageToDict(found.state_delta) == {"changed": 1.0, "gone": 1.0, "new": None}
    assert dict(found.artifact_versions) == {"f": 0}
    assert restoring_change(changes, frozenset(), frozenset()) == b""


# The behaviour of ADK: `DatabaseSessionService.append_event` and `Runner.rewind_async`, in a few lines.


class Adk:
    """A session as ADK has it: its events, and its state, which is never recomputed."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Json, str]] = []
        self.state: Json = {}

    def append(self, invocation: str, delta: Json, target: str = "") -> None:
        self.events.append((invocation, delta, target))
        self.apply(self.state, delta)

    @staticmethod
    def apply(state: Json, delta: Json) -> None:
        for key, value in delta.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value

    def rewind(self, own_invocation: str, target: str) -> None:
        index = next(i for i, (invocation, _, _) in enumerate(self.events) if invocation == target)
        then: Json = {}
        for _, delta, _ in self.events[:index]:
            self.apply(then, delta)
        restored: Json = {key: value for key, value in then.items() if self.state.get(key) != value}
        restored |= {key: None for key in self.state if key not in then}
        self.append(own_invocation, restored, target)

    def lines(self) -> list[Line]:
        return [Line(seq, EVENT, name, target=to) for seq, (name, _, to) in enumerate(self.events, 1)]

    def changes(self) -> list[tuple[int, bytes]]:
        return [(seq, own(delta)) for seq, (_, delta, _) in enumerate(self.events, 1)]

    def live(self) -> list[int]:
        """`_apply_rewinds`: walks back, and over what was rewound."""
        first = {name: i for i, (name, _, _) in reversed(list(enumerate(self.events)))}
        kept: list[int] = []
        i = len(self.events) - 1
        while i >= 0:
            target = self.events[i][2]
            if target:
                i = min(i, first[target])
            else:
                kept.insert(0, i + 1)
            i -= 1
        return kept


keys = st.sampled_from(["a", "b", "c"])
deltas = st.dictionaries(keys, st.one_of(st.none(), st.integers(0, 3)), max_size=3)
turns = st.lists(deltas, min_size=1, max_size=3)


@st.composite
def sessions_of_adk(draw: st.DrawFn) -> Adk:
    adk = Adk()
    for n in range(draw(st.integers(1, 8))):
        if adk.events and draw(st.integers(0, 2)) == 0:
            adk.rewind(f"i{n}", draw(st.sampled_from([name for name, _, _ in adk.events])))
        else:
            for delta in draw(turns):
                adk.append(f"i{n}", delta)
    return adk


@settings(max_examples=examples(300), deadline=None)
@given(sessions_of_adk())
def test_a_rewind_by_the_runtime_gives_the_same_state_as_adk(adk: Adk) -> None:
    """R10, R12: computed without the delta in the runtime's rewind."""
    lines = adk.lines()
    assert events_in_effect(lines) == frozenset(adk.live())
    assert shown(fold(adk.changes(), events_in_effect(lines))) == adk.state


@settings(max_examples=examples(150), deadline=None)
@given(sessions_of_adk(), st.data())
def test_a_rewind_of_ours_has_the_delta_that_adk_would_write(adk: Adk, data: st.DataObject) -> None:
    """R4, R12: an undo restores the state from before."""
    lines, before = adk.lines(), dict(adk.state)
    target = data.draw(st.sampled_from([name for name, _, _ in adk.events]))
    after = [*lines, rewind_line(target, lines)]
    carried = pb.Entry.FromString(restoring_change(adk.changes(), events_in_effect(lines), events_in_effect(after)))
    adk.rewind("ours", target)
    assert MessageToDict(carried.state_delta) == adk.events[-1][1]
    assert shown(fold(adk.changes(), events_in_effect(after))) == adk.state
    undone = [*after[:-1], after[-1]._replace(kind=REWIND, invocation_id="r"), Line(len(after) + 1, UNDO, "u")]
    changes = adk.changes()[: len(lines)]
    assert shown(fold(changes, events_in_effect(undone))) == before
