"""`taskplane.testing`: turns of agents, for their authors."""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskplane.agents.agent import (
    AgentCard,
    AgentError,
    ArtifactChunk,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    MakeTask,
    Policy,
    Say,
    Text,
    Turn,
    Usage,
    Working,
)
from taskplane.runtime.errors import Invalid
from taskplane.testing import run_turn, run_turn_sync, turn_of

CARD = AgentCard(name="Agent", version="1")


class Reporter:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "ask":
            yield AskInput("About what?")
            return
        yield Working("Writing")
        yield ArtifactChunk("report", text="All ", name="Report", media_type="text/plain")
        yield ArtifactChunk("report", text="is well.", append=True, last=True)
        yield ArtifactChunk("figures", data={"trees": 3})
        yield Say("First.")
        yield Text("Do")
        yield Text("ne.")
        yield Complete("Done.")


def test_a_result_has_the_changes_of_a_turn_and_the_view_of_clients() -> None:
    """P1: without an event loop of the author."""
    result = run_turn_sync(Reporter(), "trees")
    assert [type(change) for change in result.changes] == [
        *(Working, ArtifactChunk, ArtifactChunk, ArtifactChunk),
        *(Say, Text, Text, Complete),
    ]
    assert (result.state, result.text, result.reason, result.error) == ("completed", "First.\nDone.", "", None)
    assert result.artifacts["report"].text == "All is well."
    assert result.artifacts["report"].name == "Report"
    assert result.artifacts["figures"].data == [{"trees": 3}]
    assert result.status_texts == ("Writing",)
    assert result.direct_answer is None


async def test_a_question_is_answered_by_the_next_turn_of_the_same_task() -> None:
    """P6: AskInput pauses, and the answer continues; each result has the changes of its own turn."""
    async with turn_of(Reporter, "ask") as turn:
        asked = await turn.result()
        assert (asked.state, asked.text) == ("input-required", "About what?")
        done = await turn.answer("trees")
        assert (done.state, done.text) == ("completed", "First.\nDone.")
        assert AskInput("About what?") not in done.changes
        assert asked.task is not None and done.task is not None and asked.task.id == done.task.id
    whole = await run_turn(Reporter, "ask", answers=["trees"])
    assert whole.changes == (*asked.changes, *done.changes)


class Knowing:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        said = "|".join(part.text for message in turn.history for part in message.parts)
        referenced = ["".join(part.text for part in task.artifacts[0].parts) for task in await turn.referenced()]
        for task in await turn.referenced():
            assert await turn.session.artifact(task.id, task.artifacts[0].artifact_id) == task.artifacts[0]
        events = [event["n"] for event in await turn.session.events()]
        state = await turn.session.state()
        incoming = [message.parts[0].text for message in await turn.incoming()]
        await turn.session.update_state(seen=state.get("seen", 0) + 1)
        yield Complete(
            f"{turn.text} {said} {referenced} {events} {state} {incoming} {turn.checkpoint} {dict(turn.metadata)}"
            f" {list(turn.output_modes)} {list(turn.extensions)} {turn.attempt}"
        )


async def test_the_arguments_of_a_test_reach_the_agent() -> None:
    """P2, C11: history, incoming messages, referenced tasks, checkpoint, session and options."""
    before = await run_turn(Reporter(), "trees")
    result = await run_turn(
        Knowing,
        "now",
        history=["hi", "hello"],
        incoming=["more", "and more"],
        referenced=[before.task],
        checkpoint={"page": 3},
        session_events=[{"n": 1}],
        session_state={"seen": 4},
        metadata={"key": "value"},
        output_modes=["text/plain"],
        extensions=["urn:x"],
    )
    assert result.text == (
        "now hi|hello ['All is well.'] [1] {'seen': 4} ['more', 'and more'] {'page': 3} {'key': 'value'}"
        " ['text/plain'] ['urn:x'] 2"
    )
    assert result.session_state == {"seen": 5}


class Faulty:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        match turn.text:
            case "type":
                yield "a text"  # type: ignore[misc]
            case "append":
                yield ArtifactChunk("new", text="x", append=True)
            case "raise":
                raise LookupError("secret")
            case "public":
                raise AgentError("The book is gone.")
            case "after":
                yield Complete("done")
                yield Text("more")
            case "open":
                yield Text("as far as")
                raise LookupError("secret")
            case _:
                yield Say("well")


@pytest.mark.parametrize("fault", ["type", "append", "raise"])
async def test_a_fault_of_an_agent_fails_the_turn_as_in_a_plane(fault: str) -> None:
    """P9: a yield of the wrong type, an append to nothing and an exception; clients get no secrets."""
    result = await run_turn(Faulty, fault)
    assert (result.state, result.reason) == ("failed", "AGENT_ERROR")
    assert "secret" not in result.text and "unexpectedly" in result.text
    assert isinstance(result.error, LookupError) == (fault == "raise")


async def test_the_text_of_an_agent_error_is_shown_and_an_open_text_stays() -> None:
    """P9: the user gets both."""
    assert (await run_turn(Faulty, "public")).text == "The book is gone."
    assert (await run_turn(Faulty, "open")).text.splitlines()[0] == "as far as"
    assert (await run_turn(Faulty, "")).state == "completed"


async def test_a_change_after_the_final_one_fails_the_test() -> None:
    """P9: a fault of the agent that a plane only logs."""
    with pytest.raises(RuntimeError, match="after its final change"):
        await run_turn(Faulty, "after")


class Patient:
    card = CARD

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text("one ")
            yield Text("two ")
            await asyncio.Event().wait()
        finally:
            self.closed.set()


class PatientThread(Patient):
    def run(self, turn: Turn) -> Iterator[Change]:  # type: ignore[override]
        assert threading.current_thread() is not threading.main_thread()
        try:
            yield Text("one ")
            yield Text("two ")
            while not turn.cancelled.is_set():
                pass
        finally:
            self.closed.set()


@pytest.mark.parametrize("kind", [Patient, PatientThread])
async def test_p8_a_turn_is_canceled_at_the_change_that_the_test_names(kind: "type[Patient]") -> None:
    """P8: the agent is closed at that yield, and its earlier messages stay; a plain generator has a thread."""
    agent = kind()
    async with turn_of(agent, "go") as turn:
        assert await turn.until(Text) == Text("one ")
        assert await turn.until(Text("two ").__eq__) == Text("two ")
        result = await turn.cancel()
    assert result.state == "canceled"
    assert result.changes == (Text("one "), Text("two "))
    assert agent.closed.is_set()


async def test_p8_a_turn_is_canceled_while_the_agent_waits() -> None:
    """P8: without a yield in between."""
    agent = Patient()
    async with turn_of(agent, "go") as turn:
        await turn.until(Text)
        assert (await turn.cancel()).state == "canceled"
    assert agent.closed.is_set()


async def test_waiting_for_a_change_that_never_comes_fails_with_the_state_of_the_turn() -> None:
    """P1: a wrong test fails and does not hang."""
    async with turn_of(Reporter, "trees") as turn:
        with pytest.raises(AssertionError, match=r"without such a change.*completed"):
            await turn.until(AskInput)


class Listening:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Working("listening")
        for message in await turn.incoming():
            yield Say(f"heard {message.parts[0].text}")


async def test_a_message_reaches_the_agent_while_it_works() -> None:
    """P7: `turn.incoming()` returns messages of the user during the turn."""
    async with turn_of(Listening, "go") as turn:
        await turn.until(Working)
        await turn.say("stop")
        assert (await turn.result()).text == "heard stop"


class Routing:
    card = CARD

    async def route(self, turn: Turn) -> str | None:
        if turn.text == "raise":
            raise LookupError("secret")
        return f"at once, after {len(turn.history)}" if turn.text == "direct" else None

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete("as a task")


async def test_a_router_answers_directly_or_makes_a_task() -> None:
    """P3: the state of the result shows the choice; a router that fails makes a task that fails."""
    direct = await run_turn(Routing, "direct", history=["a", "b"])
    assert (direct.state, direct.direct_answer, direct.task) == ("answered", "at once, after 2", None)
    assert (await run_turn(Routing, "task")).text == "as a task"
    failed = await run_turn(Routing, "raise")
    assert failed.state == "failed" and isinstance(failed.error, LookupError)


class Counting:
    card = CARD

    def policy(self, turn: Turn) -> Policy:
        return Policy(isolation="process", run_limit=0.2 if turn.text == "slow" else None)

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        assert threading.current_thread() is not threading.main_thread()
        yield Usage({"tokens": 2})
        yield Checkpoint({"page": 1})
        yield Usage({"tokens": 3})
        yield Checkpoint({"page": 2})
        if turn.text == "slow":
            await asyncio.Event().wait()


async def test_a_result_has_the_usage_and_checkpoint_of_the_task_and_the_policy_applies() -> None:
    """P11, C11: figures are added up, the newest checkpoint counts; an isolated agent runs in a thread."""
    result = await run_turn(Counting, "go")
    assert (result.state, result.usage, result.checkpoint) == ("completed", {"tokens": 5}, {"page": 2}), result.error
    assert (await run_turn(Counting, "slow")).reason == "RUN_TIMEOUT"


def test_an_object_that_is_not_an_agent_is_refused_as_at_start() -> None:
    """P1: with the words of `taskplane dev`."""
    nothing: Any = object()
    with pytest.raises(Invalid, match="is not an agent"):
        run_turn_sync(nothing)


class Powerful(Routing):
    """With all optional methods."""

    async def route(self, turn: Turn) -> "str | MakeTask | AsyncIterator[Change] | None":  # type: ignore[override]
        return self._goes_on() if turn.text == "go on" else MakeTask("it is long")

    async def _goes_on(self) -> AsyncIterator[Change]:
        yield Say("begun while deciding")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Say("run")
        await asyncio.wait_for(self.told.wait(), 30)

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> str:
        self.told.set()
        return "running"

    async def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("made", text=turn.history[-1].parts[0].text)

    def __init__(self) -> None:
        self.told = asyncio.Event()


async def test_every_optional_method_of_an_agent_is_used_as_in_a_plane() -> None:
    """P2, P4, P6: a router with continued work, status texts during the run, and an artifact at its end."""
    result = await run_turn(Powerful, "long", status_interval=0.01)
    assert result.changes == (Say("run"), ArtifactChunk("made", text="run"))
    assert "running" in result.status_texts and result.artifacts["made"].text == "run"
    result = await run_turn(Powerful, "go on")
    assert result.changes == (Say("begun while deciding"), ArtifactChunk("made", text="begun while deciding"))


async def test_a_plain_function_is_tested_like_any_agent() -> None:
    """P14: the kit uses the adapters of `--agent`."""

    def shout(text: str) -> Iterator[str]:
        yield text.upper()
        yield "!"

    result = await run_turn(shout, "hello")
    assert (result.state, result.text) == ("completed", "HELLO!")


class Large:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        for number in range(70):
            yield ArtifactChunk(f"part-{number}", raw=bytes(1_000_000))
        yield ArtifactChunk("a" * 300, text="more")


async def test_a_task_that_is_too_large_for_a_plane_fails_in_the_kit() -> None:
    """P14: 70 MB of artifacts are above the limit of a task."""
    result = await run_turn(Large)
    assert (result.state, result.reason) == ("failed", "TASK_TOO_LARGE")
    assert 60 < len(result.artifacts) < 70


class Resuming:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield AskInput("More?") if turn.text == "ask" else Complete(f"{turn.checkpoint} {turn.attempt}")


async def test_a_given_checkpoint_stays_the_newest_if_the_run_makes_none() -> None:
    """P14, C11: the answer to a question gets it as well."""
    result = await run_turn(Resuming, "ask", checkpoint={"page": 3}, answers=["go on"])
    assert result.text == "{'page': 3} 1"
    assert result.checkpoint == {"page": 3}


class Stateful:
    card = CARD

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete(
            f"{[event['id'] for event in await turn.session.events()]} {sorted((await turn.session.state()).items())}"
        )


async def test_the_state_of_a_session_is_made_of_its_events() -> None:
    """P14: the given state is in its first event, and later events change it, also the state of the user and the
    agent."""
    state = {"a": 1, "b": 2, "user:c": [3], "app:d": None}
    result = await run_turn(Stateful, session_state=state, session_events=[{}, {"actions": {"state_delta": {"b": 4}}}])
    assert result.text == "['event-1', 'event-2'] [('a', 1), ('b', 4), ('user:c', [3])]"
    assert result.session_state == {"a": 1, "b": 4, "user:c": [3]}
    with pytest.raises(Invalid, match=r"entries\[0\]"):
        await run_turn(Stateful, session_events=[{"id": "x" * 300}])


async def test_an_assertion_within_a_turn_is_raised_unchanged() -> None:
    """P14: in no exception group."""
    with pytest.raises(AssertionError, match="mine"):
        async with turn_of(Reporter, "trees") as turn:
            await turn.until(Text)
            raise AssertionError("mine")


async def test_an_abandoned_turn_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: with any policy; its databases are deleted."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    begun: list[int] = []

    class Again:
        card = CARD

        def policy(self, turn: Turn) -> Policy:
            return Policy(on_orphan="rerun")

        async def run(self, turn: Turn) -> AsyncIterator[Change]:
            begun.append(turn.attempt)
            yield Say("one")
            await asyncio.Event().wait()

    async with turn_of(Again) as turn:
        await turn.until(Say)
        assert os.listdir(tmp_path)
    assert begun == [1]
    assert not os.listdir(tmp_path)


def test_agents_do_not_import_the_stores() -> None:
    """P14: only their tests do."""
    code = (
        "import sys; import taskplane.agents.agent; from taskplane.agents.loading import load_agents;"
        "load_agents(['demo']); rooms = 'taskplane.tasks', 'taskplane.sessions', 'taskplane.storage', 'sqlalchemy';"
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
