"""The state that the session log computes from the events of a session, on SQLite and PostgreSQL."""

import asyncio
import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from tests.conformance.session_log import ADA, BOB, NEW, Sessions, event, pushed, user

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid, NotFound
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Scope
from taskplane.sessions.sql import states


def adk_event(entry_id: str, invocation: str, target: str = "", artifacts: Any = None, **delta: Any) -> pb.Entry:
    """Return an event of ADK with a state delta. The parameter `user__u` stands for the key `user:u`."""
    keys = {key.replace("__", ":"): value for key, value in delta.items()}
    actions: dict[str, Any] = {"state_delta": keys, "artifact_delta": artifacts or {}}
    if target:
        actions["rewind_before_invocation_id"] = target
    return event(entry_id, json.dumps({"invocation_id": invocation, "actions": actions}))


async def state(sessions: Sessions, context_id: str = "s", scope: Scope = ADA) -> dict[str, Any]:
    return MessageToDict((await sessions.log.state(scope, context_id))[1])


async def rewound(sessions: Sessions, before: str, rewind_id: str) -> pb.Entry:
    request = pb.RewindRequest(context_id="s", before_invocation_id=before, id=rewind_id)
    await sessions.log.rewind(wire.rewind(request, ADA))
    return wire.entry((await sessions.entries("s"))[-1])


async def test_the_state_of_a_session_is_computed_from_its_events(sessions: Sessions) -> None:
    """R12: null removes a key; keys with the prefix `temp:` and events that are not JSON are left out."""
    await sessions.append("s", user("Q"), adk_event("e1", "A", x=1, y=[1, {"z": None}], temp__t=1))
    assert await state(sessions) == {"x": 1, "y": [1, {"z": None}]}
    session, _ = await sessions.log.state(ADA, "s")
    assert session == await sessions.log.session(ADA, "s")
    await sessions.append("s", adk_event("e2", "A", x=None, w="text"), event("e3", "no json"))
    assert await state(sessions) == {"y": [1, {"z": None}], "w": "text"}
    await sessions.append("t", user("B"))
    assert await state(sessions, "t") == {}
    with pytest.raises(NotFound):
        await state(sessions, scope=BOB)


async def test_a_rewind_restores_the_state_and_lists_the_changes(sessions: Sessions) -> None:
    """R4, R8, R12: the entry of the rewind has the values and artifact versions from before the cut turn. An undo
    brings the later ones back."""
    await sessions.append("s", adk_event("e1", "A", "", {"f": 0}, x=1, y=1))
    await sessions.append("s", adk_event("e2", "B", "", {"f": 1, "g": 0, "user:h": 3}, x=2, y=None, z=2, user__u=1))
    entry = await rewound(sessions, "B", "r")
    assert await state(sessions) == {"x": 1, "y": 1, "user:u": 1}
    assert MessageToDict(entry.state_delta) == {"x": 1, "y": 1, "z": None}
    assert dict(entry.artifact_versions) == {"f": 0}
    await sessions.log.undo(wire.undo(pb.UndoRequest(context_id="s"), ADA, entry_id="u"))
    assert await state(sessions) == {"x": 2, "z": 2, "user:u": 1}


async def test_a_late_event_of_a_cut_turn_does_not_touch_the_state(sessions: Sessions) -> None:
    """R12: a later event of a turn that was not cut still changes the state."""
    await sessions.append("s", adk_event("e1", "A", x=1), adk_event("e2", "B", x=2))
    await rewound(sessions, "B", "r")
    await sessions.append("s", adk_event("e3", "B", x=3), adk_event("e4", "A", y=1))
    assert await state(sessions) == {"x": 1, "y": 1}


async def test_a_runtime_that_rewinds_by_itself_gets_the_same_state(sessions: Sessions) -> None:
    """R10, R12: a rewind of the plane may undo a rewind that the runtime stored as an event."""
    await sessions.append("s", adk_event("e1", "A", x=1), adk_event("e2", "B", x=2, y=2))
    await sessions.append("s", adk_event("e3", "R", "B", x=1, y=None))
    assert await state(sessions) == {"x": 1}
    entry = await rewound(sessions, "R", "r")
    assert await state(sessions) == {"x": 2, "y": 2}
    assert MessageToDict(entry.state_delta) == {"x": 2, "y": 2}


async def test_a_pushed_history_replaces_the_events_before_it(sessions: Sessions) -> None:
    """R7: the state has only the events after the pushed history."""
    await sessions.append("s", adk_event("e1", "A", x=1), pushed("p"), adk_event("e2", "B", y=1))
    assert await state(sessions) == {"y": 1}


async def test_user_and_app_keys_are_shared_by_sessions_and_are_not_rewound(sessions: Sessions) -> None:
    """R12: `user:` keys belong to an owner and agent, `app:` keys to a tenant and agent."""
    other = pb.NewSession(agent="other")
    await sessions.append("s", adk_event("e1", "A", user__u=1, app__a=1, x=1))
    await sessions.append("t", adk_event("e2", "B", user__u=2, app__b=2))
    await sessions.append("o", adk_event("e3", "C", user__u=3, app__a=3), create=other)
    await sessions.append("s", adk_event("e1", "A", app__a=4), scope=BOB)
    assert await state(sessions) == {"x": 1, "user:u": 2, "app:a": 4, "app:b": 2}
    assert await state(sessions, "t") == {"user:u": 2, "app:a": 4, "app:b": 2}
    assert await state(sessions, "o") == {"user:u": 3, "app:a": 3}
    assert await state(sessions, scope=BOB) == {"app:a": 4, "app:b": 2}
    elsewhere = Scope("elsewhere", "ada", "user:ada")
    await sessions.append("s", user("A"), scope=elsewhere)
    assert await state(sessions, scope=elsewhere) == {}
    await rewound(sessions, "A", "r")
    await sessions.append("s", adk_event("e4", "D", user__u=None, app__none=None))
    assert await state(sessions) == {"app:a": 4, "app:b": 2}
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="t"))
    assert await state(sessions) == {"app:a": 4, "app:b": 2}


async def test_concurrent_writes_of_one_key_all_succeed(sessions: Sessions) -> None:
    """R12: each session has its own value, and the shared key has the value of one writer."""
    await asyncio.gather(
        *(sessions.append(f"s{n}", adk_event(f"e{n}", "A", app__a=n, user__u=n, x=n), create=NEW) for n in range(24))
    )
    for n in range(24):
        found = await state(sessions, f"s{n}")
        assert (found["x"], found["app:a"] in range(24), found["user:u"] == found["app:a"]) == (n, True, True)


async def test_a_repeated_event_does_not_change_the_state_again(sessions: Sessions) -> None:
    """C6: a repeat of an old event does not bring its values back."""
    await sessions.append("s", adk_event("e1", "A", x=1, user__u=1))
    await sessions.append("s", adk_event("e2", "A", x=2, user__u=2))
    await sessions.append("s", adk_event("e1", "A", x=1, user__u=1), adk_event("e3", "A", y=3))
    assert await state(sessions) == {"x": 2, "y": 3, "user:u": 2}


@pytest.mark.parametrize("delta", ["[]", '"text"', "1"])
async def test_a_delta_that_is_not_an_object_is_refused_and_nothing_is_stored(sessions: Sessions, delta: str) -> None:
    data = '{"invocation_id": "A", "actions": {"stateDelta": ' + delta + "}}"
    with pytest.raises(Invalid) as refused:
        await sessions.append("s", user("A"), event("e", data))
    assert (refused.value.reason, list(refused.value.fields)) == ("BAD_STATE", ["entries[1].data"])
    with pytest.raises(NotFound):
        await sessions.log.session(ADA, "s")


async def test_a_state_with_more_changes_than_a_page_is_read_and_rewound(sessions: Sessions) -> None:
    """R12: the changes are read page by page."""
    count = 2 * states.PAGE + 1
    for first in range(0, count, 100):
        await sessions.append(
            "s",
            *(adk_event(f"e{n}", f"i{n}", "", None, **{f"k{n % 7}": n}) for n in range(first, min(first + 100, count))),
        )
    assert await state(sessions) == {f"k{n % 7}": n for n in range(count)}
    await rewound(sessions, "i250", "r")
    assert await state(sessions) == {f"k{n % 7}": n for n in range(250)}


async def test_the_state_of_a_session_is_deleted_with_the_session(sessions: Sessions) -> None:
    """S4: a new session under the id begins with an empty state."""
    await sessions.append("s", adk_event("e1", "A", x=1))
    await sessions.log.delete(commands.Delete(scope=ADA, context_id="s"))
    await sessions.append("s", adk_event("e2", "A", y=1))
    assert await state(sessions) == {"y": 1}
