"""Imports that their gateway did not live to finish."""

import struct
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import ANN, Stores, open_stores

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.sweeps.imports import Imports
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.errors import Conflict, NotFound, PlaneError
from taskplane.runtime.principal import Principal
from taskplane.storage import staging

NAMES = {"context_id": "c", "import_id": "i"}


def framed(*records: sb.ImportRecord | pb.ImportRecord) -> bytes:
    return b"".join(struct.pack("!I", one.ByteSize()) + one.SerializeToString() for one in records)


async def half_imported(stores: Stores) -> None:
    """Leaves the session staged, and its one task imported."""
    session = sb.Session(context_id="c", version=1)
    task = pb.ExportedTask(
        uid="u", id="t", origin=pb.ORIGIN_DOCUMENT, generation=1, on_orphan=pb.ON_ORPHAN_FAIL, max_attempts=1
    )
    task.task.id, task.task.context_id = "t", "c"
    event = pb.ExportedEvent(
        event=pb.Event(generation=1, kind=pb.EVENT_KIND_REPLACED, actor="x"), changed_to=a2a.TASK_STATE_UNSPECIFIED
    )
    for stamp in (session.created_at, session.updated_at, task.created_at, task.status_at, task.updated_at):
        stamp.seconds = 1
    event.event.created_at.seconds = 1
    staged = framed(sb.ImportRecord(line=1, session=session))
    await stores.sessions().StageImport(sb.StageImportRequest(**NAMES, number=1, data=staged))
    pages = framed(pb.ImportRecord(line=2, task=task), pb.ImportRecord(line=3, event=event))
    # Cut in the middle of a record, and one page sent twice.
    for number, data in ((1, pages[:9]), (2, pages[9:]), (2, pages[9:])):
        await stores.tasks().StageImport(pb.StageImportRequest(**NAMES, number=number, data=data))
    with pytest.raises(NotFound):
        await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))
    made = await stores.tasks().CommitImport(pb.CommitImportRequest(**NAMES, pages=2))
    assert made.tasks == 1


def sweeper(stores: Stores, after: float) -> Imports:
    who = client(InProcessChannel(stores.services), identity=Principal("", "", "executor", service=True))
    return Imports(TaskStoreStub(who), SessionHistoryStub(who), after=after)


async def test_a_sweep_deletes_imported_tasks_without_a_session(tmp_path: Path) -> None:
    """S: a crash between the two stores leaves nothing, and the session cannot be committed later."""
    async with open_stores(tmp_path) as stores:
        await half_imported(stores)
        await sweeper(stores, 3600.0).sweep("executor")
        assert (await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))).record.context_id == "c"
        await sweeper(stores, 0.0).sweep("executor")
        with pytest.raises(NotFound):
            await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))
        with pytest.raises(Conflict) as refused:
            await stores.sessions().CommitImport(sb.CommitImportRequest(**NAMES, pages=1))
        assert refused.value.reason == "IMPORT_REPLACED"


async def test_a_sweep_keeps_imported_tasks_with_a_session(tmp_path: Path) -> None:
    """S: only its last word was missing."""
    async with open_stores(tmp_path) as stores:
        await half_imported(stores)
        await stores.sessions(ANN).CommitImport(sb.CommitImportRequest(**NAMES, pages=1))
        await sweeper(stores, 0.0).sweep("executor")
        assert (await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))).record.context_id == "c"
        await stores.tasks().DropImport(pb.DropImportRequest(context_id="c"))
        assert (await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))).record.context_id == "c"


async def test_a_sweep_deletes_staged_pages_of_an_abandoned_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: not before the time to give up, and without any further import."""
    async with open_stores(tmp_path) as stores:
        page: dict[str, Any] = {**NAMES, "number": 1, "data": b"x"}
        await stores.sessions().StageImport(sb.StageImportRequest(**page))
        await stores.tasks().StageImport(pb.StageImportRequest(**page))
        for given_up, reason in ((staging.GIVEN_UP, "IMPORT_CUT"), (0, "IMPORT_REPLACED")):
            monkeypatch.setattr(staging, "GIVEN_UP", given_up)
            await sweeper(stores, 3600.0).sweep("executor")
            with pytest.raises(PlaneError) as of_session:
                await stores.sessions().CommitImport(sb.CommitImportRequest(**NAMES, pages=1))
            with pytest.raises(PlaneError) as of_tasks:
                await stores.tasks().CommitImport(pb.CommitImportRequest(**NAMES, pages=1))
            assert of_session.value.reason == of_tasks.value.reason == reason


async def test_a_new_import_of_a_session_replaces_an_unfinished_one(tmp_path: Path) -> None:
    """S: the tasks of the unfinished import are removed."""
    async with open_stores(tmp_path) as stores:
        await half_imported(stores)
        session = sb.Session(context_id="c", version=1)
        session.created_at.seconds = session.updated_at.seconds = 1
        other = {**NAMES, "import_id": "j"}
        data = framed(sb.ImportRecord(line=1, session=session))
        await stores.sessions().StageImport(sb.StageImportRequest(**other, number=1, data=data))
        with pytest.raises(Conflict):
            await stores.sessions().CommitImport(sb.CommitImportRequest(**NAMES, pages=1))
        await stores.tasks().DropImport(pb.DropImportRequest(context_id="c"))
        with pytest.raises(NotFound):
            await stores.tasks().GetTask(pb.GetTaskRequest(task_id="t"))
        assert (await stores.sessions().CommitImport(sb.CommitImportRequest(**other, pages=1))).session.version == 1
