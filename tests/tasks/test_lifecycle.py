"""The lines and counters by which an operator follows tasks."""

import logging
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.conftest import Migrated
from tests.tasks.plane import ANN, COMPLETED, opened, status

from taskplane.api.tasks.v1 import tasks_pb2 as pb

LOGGER = "taskplane.tasks.lifecycle"


def ended(state: str) -> float:
    return REGISTRY.get_sample_value("taskplane_tasks_ended_total", {"state": state}) or 0.0


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """The text of each line, and its task and state."""
    found: list[Any] = [record for record in caplog.records if record.name == LOGGER]
    return [(record.getMessage(), record.task_id, record.state) for record in found]


async def test_a_task_has_one_line_when_it_begins_and_one_when_it_ends(
    migrated: Migrated, caplog: pytest.LogCaptureFixture
) -> None:
    """What happens in between, and what is repeated, is no news at INFO."""
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
    assert (ended("completed"), ended("canceled")) == (before[0] + 1, before[1] + 1)


async def test_a_live_task_that_is_deleted_ends_as_canceled(
    migrated: Migrated, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(await migrated("taskplane.tasks")) as plane:
        run = await plane.create(working=True)
        caplog.set_level(logging.INFO, LOGGER)
        await plane.store(ANN).DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    assert lines(caplog) == [("task ended", run.id, "canceled")]
