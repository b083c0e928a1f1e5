"""Faults of a SQLite file under a running plane, and under a plane that is about to start."""

import os
import resource
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.cli.command import PATIENCE, Dev, dev, taskplane
from tests.support.damage import damage

STORES = ["tasks", "sessions"]


@pytest.fixture
def own(tmp_path: Path) -> Generator[Dev]:
    """A plane with database files that a test may damage."""
    with dev("--data", str(tmp_path), cwd=tmp_path) as started:
        yield started


def send(url: str, text: str = "hello", version: str = "1.0") -> httpx.Response:
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    method = "SendMessage"
    if version == "0.3":
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
        method = "message/send"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return httpx.post(url, json=body, headers={"A2A-Version": version}, timeout=PATIENCE)


def until_ready(url: str, status: int) -> None:
    """Waits until /readyz answers with this status."""
    deadline = time.monotonic() + PATIENCE
    while httpx.get(f"{url}/readyz").status_code != status:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    other = file.with_suffix(".other")
    other.write_bytes(file.read_bytes())
    other.rename(file)


def truncate(file: Path) -> None:
    os.truncate(file, 4096)


def empty_log(file: Path) -> None:
    os.truncate(f"{file}-wal", 0)


def halve_log(file: Path) -> None:
    log = Path(f"{file}-wal")
    os.truncate(log, log.stat().st_size // 2)


@pytest.mark.more
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("fault", [delete, replace, truncate, empty_log, halve_log])
def test_no_write_is_acknowledged_without_being_in_the_file(
    own: Dev, tmp_path: Path, store: str, fault: Callable[[Path], None]
) -> None:
    """C2, C15: the next write is refused with a retryable error, and the plane is not ready. A task that the other
    store has created already fails with the reason."""
    assert "result" in send(own.url).json()
    fault(tmp_path / f"{store}.db")
    refused = send(own.url).json()
    if store == "sessions":
        said = refused["result"]["task"]["status"]
        assert (said["state"], said["message"]["metadata"]["reason"]) == ("TASK_STATE_FAILED", "DATABASE_DOWN")
    else:
        assert refused["error"]["data"][0]["reason"] == "DATABASE_DOWN"
        assert any(each["@type"].endswith("RetryInfo") for each in refused["error"]["data"])
        assert send(own.url, version="0.3").json()["error"]["data"]["retryable"] is True
    until_ready(own.url, 503)
    own.process.kill()
    _, rest = own.end()
    assert rest.count("further writes are refused") == 1 and "Traceback" not in rest


@pytest.mark.more
def test_a_plane_on_a_full_disk_refuses_writes_until_there_is_space(own: Dev, tmp_path: Path) -> None:
    """C15: the plane becomes ready again by itself, without a request."""
    assert "result" in send(own.url).json()
    pid = own.process.pid
    largest = max(file.stat().st_size for file in tmp_path.glob("*.db-wal"))
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest // 4096 * 4096, before[1]))
    try:
        for version in ("1.0", "0.3"):
            while "result" in (answer := send(own.url, "x" * 100_000, version).json()):
                continue
            data = answer["error"]["data"]
            retry = data["retryAfter"] if version == "0.3" else [each for each in data if "retryDelay" in each]
            assert retry, answer
        until_ready(own.url, 503)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    until_ready(own.url, 200)
    assert "result" in send(own.url).json()


@pytest.mark.parametrize("name", ["event", "sqlite_autoindex_task_1"])
def test_damage_found_while_the_plane_runs_is_logged_once_and_is_not_retryable(tmp_path: Path, name: str) -> None:
    """C15: the log names the damaged file and the remedy once, and the plane is not ready."""
    with dev("--data", str(tmp_path), cwd=tmp_path) as sound:
        assert "result" in send(sound.url).json()
        sound.signal(signal.SIGTERM)
        assert sound.end()[0] == 0
    damage(tmp_path / "tasks.db", name)
    with dev("--data", str(tmp_path), cwd=tmp_path) as damaged:
        for _ in range(2):
            data = send(damaged.url).json()["error"]["data"]
            assert data[0]["reason"] == "DATABASE_DAMAGED"
            assert not any(each["@type"].endswith("RetryInfo") for each in data)
        said = send(damaged.url, version="0.3").json()["error"]["data"]
        assert (said["reason"], said["retryable"]) == ("DATABASE_DAMAGED", False)
        until_ready(damaged.url, 503)
        damaged.process.kill()
        _, rest = damaged.end()
    told = [line for line in (damaged.said + rest).splitlines() if "CRITICAL" in line.upper()]
    assert len(told) == 1 and f"{tmp_path / 'tasks.db'} is damaged" in told[0] and "a backup" in told[0], told
    assert "Traceback" not in rest


@pytest.mark.parametrize("store", STORES)
def test_a_folder_with_the_name_of_a_file_is_refused_at_start(tmp_path: Path, store: str) -> None:
    """C15: the error is one sentence that names the folder."""
    (tmp_path / f"{store}.db").mkdir()
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--data", str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert f"{tmp_path / f'{store}.db'} is a folder" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("content", [b"this is no database" * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_damaged_file_is_refused_at_start_and_stays_unchanged(tmp_path: Path, store: str, content: bytes) -> None:
    """C15: one sentence names the file and the remedy."""
    (tmp_path / f"{store}.db").write_bytes(content)
    done = taskplane("dev", "--port", "0", "--grpc-port", "0", "--data", str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert f"{store}.db is damaged or not a SQLite database" in done.stderr and "restore a backup" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / f"{store}.db").read_bytes() == content
