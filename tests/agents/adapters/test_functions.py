"""Plain functions as agents, beyond the scenarios."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.executor.plane import Stores, eventually, open_plane, text, until

from taskplane.agents.adapters import adapt
from taskplane.agents.agent import AskInput, Message, Part, Say, Working
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

if TYPE_CHECKING:
    from taskplane.agents.agent import Change, Turn

HERE = "tests.agents.adapters"
COMPLETED, FAILED = a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED


async def answers(stores: Stores, function: Any, words: str = "go") -> tuple[int, list[str]]:
    """Returns the state in which a task of this function ends, and all texts of the agent."""
    async with open_plane(stores, ("a", adapt(function, "a"))) as plane:
        task = await plane.run(words)
        said = {message.message_id: text(message) for message in (*task.history[1:], task.status.message)}
        return task.status.state, [words for words in said.values() if words]


def whole(text: str) -> str:
    return f"{text}!"


def message(text: str) -> Message:
    return Message(role=a2a.ROLE_AGENT, parts=[Part(text=f"{text}!")])


def nothing(text: str) -> None:
    return None


def change(text: str) -> "Change":
    return AskInput("Which?")


def iterator(text: str) -> Iterator[str]:
    return iter([text, "!"])


def generator(text: str) -> "Iterator[str | Change]":
    yield Working("Thinking")
    yield from (text, "!")


async def async_whole(text: str) -> str:
    return f"{text}!"


async def async_generator(text: str) -> "AsyncIterator[str | Change]":
    yield Say("first")
    for piece in (text, "!"):
        yield piece


async def async_maker(text: str) -> AsyncIterator[str]:
    return async_whole_in_pieces(text)


async def async_whole_in_pieces(text: str) -> AsyncIterator[str]:
    for piece in (text, "!"):
        yield piece


def turn_by_name(turn: "Turn") -> str:
    return f"{turn.text}! {turn.attempt}"


ANSWERS: list[tuple[Any, int, list[str]]] = [
    (whole, COMPLETED, ["go!"]),
    (message, COMPLETED, ["go!"]),
    (nothing, COMPLETED, []),
    (change, a2a.TASK_STATE_INPUT_REQUIRED, ["Which?"]),
    (iterator, COMPLETED, ["go!"]),
    (generator, COMPLETED, ["go!"]),
    (async_whole, COMPLETED, ["go!"]),
    (async_generator, COMPLETED, ["first", "go!"]),
    (async_maker, COMPLETED, ["go!"]),
    (turn_by_name, COMPLETED, ["go! 1"]),
]


@pytest.mark.parametrize(("function", "state", "said"), ANSWERS)
async def test_the_results_of_a_function_are_its_answer(
    stores: Stores, function: Any, state: int, said: list[str]
) -> None:
    """P1, P3: a str completes the task, strs of a generator grow, changes are passed on."""
    assert await answers(stores, function) == (state, said)


def number(text: str) -> int:
    return 5


def numbers(text: str) -> Iterator[int]:
    yield 5


def not_awaited(text: str) -> Any:
    return async_whole(text)


@pytest.mark.parametrize("wrong", [number, numbers, not_awaited])
async def test_an_invalid_result_of_a_function_fails_the_task(stores: Stores, wrong: Any) -> None:
    """P9: a number, an awaitable that is not awaited, a number among the pieces."""
    state, said = await answers(stores, wrong)
    assert state == FAILED and "unexpectedly" in said[-1]


async def test_a_blocking_function_delays_no_other_run_and_finishes_in_its_thread_after_a_cancel(
    stores: Stores,
) -> None:
    """P8: the task is canceled at once, and the later result of the function is not stored."""
    entered, let_go, left = threading.Event(), threading.Event(), threading.Event()

    def block(text: str) -> str:
        if text == "block":
            entered.set()
            let_go.wait(60)
            left.set()
        return "too late" if text == "block" else "quick"

    async with open_plane(stores, ("a", adapt(block, "a"))) as plane:
        task_id = (await plane.submit("block")).task.task_id
        await until(entered.is_set)
        assert text((await plane.run("other")).status.message) == "quick"
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        await plane.reaches(task_id, a2a.TASK_STATE_CANCELED)
        assert not left.is_set()
        let_go.set()
        await until(left.is_set)
        await until(lambda: not plane.service.runs.active)
        task = await plane.task(task_id)
    assert task.status.state == a2a.TASK_STATE_CANCELED
    assert [text(said) for said in task.history] == ["block"]


async def test_plain_and_async_generators_are_closed_after_a_cancel(stores: Stores) -> None:
    """P11: resources of a function are closed with its run."""
    closed: list[str] = []

    async def waits(text: str) -> AsyncIterator[str]:
        try:
            yield "begun"
            await asyncio.Event().wait()
        finally:
            closed.append("async")

    def polls(turn: "Turn") -> Iterator[str]:
        try:
            while not turn.cancelled.is_set():
                yield "."
        finally:
            closed.append("plain")

    agents = ("waits", adapt(waits, "waits")), ("polls", adapt(polls, "polls"))
    async with open_plane(stores, *agents) as plane:
        for name in ("waits", "polls"):
            task_id = (await plane.submit("go", agent=name)).task.task_id
            await eventually(lambda id=task_id: plane.events(id), lambda events: len(events) > 1)  # type: ignore[misc]
            await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
            await until(lambda: not plane.service.runs.active)
        # The plain generator is closed by its thread, and the run does not wait for it.
        await until(lambda: closed == ["async", "plain"])


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_adapted_agents_run_in_a_thread_or_a_process(stores: Stores, isolation: str) -> None:
    """P9: a process loads them by the same name."""
    names = [f"{HERE}.plain:pieces", f"{HERE}.plain:attempt", f"{HERE}.pid_graph:graph"]
    if isolation == "thread":
        names += [f"{HERE}.plain:where", f"{HERE}.plain:where_async", f"{HERE}.plain:pieces_async"]
    specs = [f"{name}@{isolation}" for name in names]
    async with open_plane(stores, loaded=specs, idle_processes=0) as plane:
        for spec in names:
            task = await plane.run("go", agent=spec.partition(":")[2])
            assert task.status.state == COMPLETED, text(task.status.message)
            process, *rest = text(task.status.message).split()
            assert (int(process) == os.getpid()) == (isolation == "thread"), spec
            assert rest[:1] in ([], [str(isolation == "process")]), spec
