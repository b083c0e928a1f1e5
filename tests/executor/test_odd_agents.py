"""Agents with faults that could end the process: only their own task fails."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.executor.plane import Stores, open_plane, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AgentError, Change, Complete, Policy, StatusText, Text, Turn, Usage, Working
from taskplane.agents.loading import load_agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Invalid

UNEXPECTED = "The agent failed unexpectedly; its log has the cause under "


UNSENDABLE: dict[str, Callable[[], Sequence[Change]]] = {
    "name": lambda: [Usage({"\ud800": 1})],
    "integers": lambda: [Usage({"a": 10**308}), Usage({"a": 10**308})],
    "floats": lambda: [Usage({"a": 1e308}), Usage({"a": 1e308})],
    "huge": lambda: [Usage({"a": 10**400})],
    "too many": lambda: [Usage({f"a{number}": 1 for number in range(51 * half, 51 * (half + 1))}) for half in (0, 1)],
    "long": lambda: [Usage({"a" * 256: 1})],
}


@pytest.mark.parametrize("changes", UNSENDABLE)
async def test_a_change_that_cannot_be_sent_fails_its_own_run_only(stores: Stores, changes: str) -> None:
    """P9: a concurrent run and later runs complete."""
    began, let_go = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "odd":
            for change in UNSENDABLE[changes]():
                yield change
            return
        began.set()
        await let_go.wait()
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        beside = await plane.submit("beside")
        await began.wait()
        task = await plane.run("odd")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message).startswith(UNEXPECTED)
        let_go.set()
        assert text((await plane.at_rest(beside)).status.message) == "well"
        assert text((await plane.run("later")).status.message) == "well"
        await until(lambda: not plane.service.runs.active)
        assert not plane.service.runs.bugs


async def test_invalid_figures_of_a_status_writer_fail_no_run(stores: Stores) -> None:
    """P9, P6: a sum that is not a number counts as no status text."""
    asked = asyncio.Event()

    class Writer(Scripted):
        times = 0

        async def status_text(self, turn: Turn, recent: Sequence[str]) -> StatusText:
            self.times += 1
            if self.times == 3:
                asked.set()
            return StatusText(None, {"a": 10**308})

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await asked.wait()
        yield Complete("well")

    async with open_plane(stores, ("a", Writer(script)), status_interval=0.01) as plane:
        assert text((await plane.run("go")).status.message) == "well"
        assert not plane.service.runs.bugs


async def test_a_status_writer_that_always_raises_logs_one_traceback_per_run(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P6, P9: and a line for each further call."""
    asked = asyncio.Event()

    class Writer(Scripted):
        times = 0

        async def status_text(self, turn: Turn, recent: Sequence[str]) -> str:
            self.times += 1
            if self.times % 3 == 0:
                asked.set()
            raise LookupError("nothing to say")

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await asked.wait()
        asked.clear()
        yield Complete("well")

    async with open_plane(stores, ("a", Writer(script)), status_interval=0.01) as plane:
        for _ in range(2):
            caplog.clear()
            assert text((await plane.run("go")).status.message) == "well"
            told = [record for record in caplog.records if "LookupError: nothing to say" in record.getMessage()]
            assert len(told) >= 2 and [bool(record.exc_info) for record in told] == [True] + [False] * (len(told) - 1)


NOTHING: dict[str, Callable[[], Change]] = {
    "working": Working,
    "text": lambda: Text(""),
    "usage": lambda: Usage({}),
    "figures": lambda: Usage({"a": 0}),
}


@pytest.mark.parametrize("nothing", NOTHING)
async def test_an_agent_that_yields_nothing_in_a_loop_delays_no_other_run(stores: Stores, nothing: str) -> None:
    """P9: it can be canceled."""
    began = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "spin":
            began.set()
            # The loop is finite only so that a failed test ends.
            for _ in range(5_000_000):
                yield NOTHING[nothing]()
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        spinning = await plane.submit("spin")
        await began.wait()
        assert text((await plane.run("beside")).status.message) == "well"
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=spinning.task.task_id))
        assert (await plane.at_rest(spinning)).status.state == a2a.TASK_STATE_CANCELED
        await until(lambda: not plane.service.runs.active)


class _Unspeakable(RuntimeError):
    def __str__(self) -> str:
        raise self

    __repr__ = __str__


class _UnspeakableForUsers(_Unspeakable, AgentError):
    pass


@pytest.mark.parametrize("kind", [_Unspeakable, _UnspeakableForUsers])
@pytest.mark.parametrize("where", ["run", "route", "policy", "status_text", "late"])
async def test_an_exception_without_a_text_form_is_handled_like_any_other(
    stores: Stores, kind: type[Exception], where: str
) -> None:
    """P9: from each method of an agent; also a value without a text form, after the final change."""
    asked = asyncio.Event()

    class Odd(Scripted):
        async def route(self, turn: Turn) -> str | None:
            if where == "route":
                raise kind
            return None

        def policy(self, turn: Turn) -> Policy:
            if where == "policy":
                raise kind
            return Policy()

        async def status_text(self, turn: Turn, recent: Sequence[str]) -> str:
            asked.set()
            raise kind

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if where == "run":
            raise kind
        if where == "status_text":
            await asked.wait()
        yield Complete("well")
        if where == "late":
            yield kind()  # type: ignore[misc]  # pyright: ignore[reportReturnType]

    async with open_plane(stores, ("a", Odd(script)), status_interval=0.01, strict_agents=False) as plane:
        task = await plane.run("go")
        if where in ("status_text", "late"):
            assert text(task.status.message) == "well"
        else:
            assert text(task.status.message).startswith(UNEXPECTED)
        await until(lambda: not plane.service.runs.active)
        assert not plane.service.runs.bugs


def test_a_module_that_raises_an_exception_without_a_text_form_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9: the error has the type of the exception."""
    tmp_path.joinpath("unspeakable_module.py").write_text(
        "class Unspeakable(Exception):\n    def __str__(self):\n        raise self\n\nraise Unspeakable\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(Invalid, match="could not be imported: Unspeakable"):
        load_agents(["unspeakable_module:agent"])
