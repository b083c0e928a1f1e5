"""The lines and counters by which an operator follows tasks."""

import logging
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.conftest import Migrated
from tests.tasks.plane import ANN, COMPLETED, WORKING, opened, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb

LOGGER = "taskplane.tasks.lifecycle"


def ended(state: str) -> float:
    return REGISTRY.get_sample_value("taskplane_tasks_ended_total", {"state": state}) or 0.0


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """The text of each line, and its task and state."""
    found: list[Any] = [record for record in caplog.records if record.name == LOGGER]
    return [(record.getMessage(), record.task_id, record.state) for record in found]


async def test_the_line_of_an_end_names_the_states_passed(migrated: Migrated, caplog: pytest.LogCaptureFixture) -> None:
    """M8: a line for the beginning and one for the end. What else happens, and what is repeated, is no news at INFO."""
    before = ended("completed"), ended("canceled")
    async with opened(await migrated("taskplane.tasks")) as plane:
        caplog.set_level(logging.INFO, LOGGER)
        run = await plane.create(working=True)
        await run.chunks(3)
        await run.complete()
        await run.append(status(COMPLETED))
        gone = await plane.create(working=True)
        await plane.store(ANN).CancelTask(pb.CancelTaskRequest(task_id=gone.id))
    assert lines(caplog) == [
        ("task created", run.id, "submitted"),
        ("task ended", run.id, "completed"),
        ("task created", gone.id, "submitted"),
        ("task ended", gone.id, "canceled"),
    ]
    passed = [record.__dict__.get("states") for record in caplog.records if record.name == LOGGER]
    assert passed == [None, "submitted working completed", None, "submitted working canceled"]
    assert (ended("completed"), ended("canceled")) == (before[0] + 1, before[1] + 1)


async def test_a_pause_has_a_line_at_once(migrated: Migrated, caplog: pytest.LogCaptureFixture) -> None:
    """M8: it may last for days."""
    async with opened(await migrated("taskplane.tasks")) as plane:
        caplog.set_level(logging.INFO, LOGGER)
        run = await plane.create(working=True)
        await run.append(status(a2a.TASK_STATE_INPUT_REQUIRED))
    assert lines(caplog) == [
        ("task created", run.id, "submitted"),
        ("task state changed", run.id, "input-required"),
    ]


async def test_the_change_to_working_has_a_line_at_debug(migrated: Migrated, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(await migrated("taskplane.tasks")) as plane:
        caplog.set_level(logging.DEBUG, LOGGER)
        run = await plane.create(working=True)
    assert lines(caplog) == [("task created", run.id, "submitted"), ("task state changed", run.id, "working")]


async def test_a_live_task_that_is_deleted_ends_as_canceled(
    migrated: Migrated, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(await migrated("taskplane.tasks")) as plane:
        run = await plane.create(working=True)
        caplog.set_level(logging.INFO, LOGGER)
        await plane.store(ANN._replace(service=True)).DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    assert lines(caplog) == [("task ended", run.id, "canceled")]


async def test_documents_are_logged_too(migrated: Migrated, caplog: pytest.LogCaptureFixture) -> None:
    """M8, T4: with any id, and with the session."""
    async with opened(await migrated("taskplane.tasks")) as plane:
        caplog.set_level(logging.INFO, LOGGER)
        before = ended("completed")
        for state in (WORKING, WORKING, COMPLETED, WORKING):
            task = a2a.Task(id="mine", context_id="c", status=a2a.TaskStatus(state=state))
            await plane.store(ANN).PutTask(pb.PutTaskRequest(task=task))
    assert lines(caplog) == [
        ("task stored", "mine", "working"),
        ("task state changed", "mine", "completed"),
        ("task state changed", "mine", "working"),
    ]
    found: list[Any] = [record for record in caplog.records if record.name == LOGGER]
    assert {record.context_id for record in found} == {"c"}
    assert ended("completed") == before
