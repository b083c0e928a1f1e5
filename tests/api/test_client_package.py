"""The package `taskplane-client`: the contract and the client for programs that call a plane, without the server."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.repo.tree import ROOT

_USE = """
import json, sys
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub, TaskStoreStub
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
import taskplane.api
print(json.dumps([list(taskplane.api.__path__), sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def project(path: str) -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / path).read_text())["project"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `pip install ./protos` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT / "protos", check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_client_package_has_only_the_contract_and_the_client(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = [name for name in names if ".dist-info/" not in name]
    assert all(name.startswith(("taskplane/api/", "taskplane/client/")) for name in ours)
    assert {"taskplane/api/py.typed", "taskplane/client/py.typed", "taskplane/api/tasks/v1/tasks.proto"} <= set(ours)


def test_the_stubs_import_with_the_dependencies_of_the_client_package(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}){_USE}"],
        check=True,
        capture_output=True,
        text=True,
    )
    (path, *_), loaded = json.loads(answer.stdout)
    assert path == str(tmp_path / "taskplane" / "api")
    assert {"grpc", "google"} <= set(loaded)
    assert {"sqlalchemy", "starlette", "uvicorn", "httpx", "typer"}.isdisjoint(loaded)


_CLIENT = """
import asyncio, json, sys
from taskplane.client import Client, Failure, Received, user_message
async def main():
    async with Client("http://127.0.0.1:1") as client:
        try:
            await client.send("hello")
        except Failure as failure:
            return [failure.reason, failure.retryable]
told = asyncio.run(main())
print(json.dumps([told, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_the_client_works_with_the_dependencies_of_the_client_package(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}){_CLIENT}"],
        check=True,
        capture_output=True,
        text=True,
    )
    told, loaded = json.loads(answer.stdout)
    assert told == ["UNREACHABLE", True]
    assert {"grpc", "google", "sqlalchemy", "starlette", "uvicorn", "typer", "orjson"}.isdisjoint(loaded)
    assert "httpx" in loaded


def test_both_packages_have_the_same_floors() -> None:
    server, client = project("pyproject.toml"), project("protos/pyproject.toml")
    assert set(client["dependencies"]) <= set(server["dependencies"])
