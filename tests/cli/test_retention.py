"""C16: the deletions of the operator, `taskplane gc` and `taskplane user erase`."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.command import Dev, dev, taskplane
from tests.support.ports import refusing_port

SECRET = {"TASKPLANE_TASKS_INTERNAL_SECRET": "s" * 40}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Generator[Dev]:
    """A plane that keeps no events of ended tasks, and deletes them only when `gc` is run."""
    env = {"TASKPLANE_TASKS_EVENTS_TTL": "0.001", **SECRET}
    with dev(cwd=tmp_path_factory.mktemp("old"), env=env) as started:
        yield started


def chat(plane: Dev, text: str) -> None:
    assert taskplane("chat", "-m", text, "--url", plane.url).returncode == 0


def test_a_dry_gc_prints_the_numbers_of_the_following_gc(old: Dev) -> None:
    """C16: gc deletes these events, and the task itself is unchanged."""
    chat(old, "chunks 30")
    listed = json.loads(taskplane("task", "list", "--url", old.url, "-o", "json").stdout)
    dry = taskplane("gc", "--dry-run", "--grpc", old.grpc, "-o", "json", env=SECRET)
    numbers = json.loads(dry.stdout)
    assert (numbers["tasks"], numbers["dry_run"]) == (1, True) and numbers["events"] >= 30 < numbers["bytes"]
    done = taskplane("gc", "--grpc", old.grpc, "-o", "json", env=SECRET)
    assert json.loads(done.stdout) == {**numbers, "dry_run": False}
    again = taskplane("gc", "--grpc", old.grpc, env=SECRET)
    assert (again.returncode, again.stdout) == (0, "0 events (0 bytes) of 0 tasks were deleted\n")
    assert json.loads(taskplane("task", "list", "--url", old.url, "-o", "json").stdout) == listed


def test_a_user_is_erased_once_and_a_second_erase_finds_nothing(old: Dev) -> None:
    """C16: sessions, tasks and events are deleted, only with `--yes`."""
    chat(old, "hello")
    refused = taskplane("user", "erase", "local", "--grpc", old.grpc, env=SECRET)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    numbers = json.loads(
        taskplane("user", "erase", "local", "--yes", "--grpc", old.grpc, "-o", "json", env=SECRET).stdout
    )
    assert numbers["user"] == "local" and numbers["sessions"] >= 1 and numbers["entries"] >= 2
    assert taskplane("session", "list", "--url", old.url).stdout == ""
    again = taskplane("user", "erase", "local", "--yes", "--grpc", old.grpc, env=SECRET)
    assert again.returncode == 0
    assert again.stdout == (
        "local was erased: 0 sessions with 0 entries, 0 tasks (0 canceled) with 0 events, 0 keys of state\n"
    )


def test_erasing_without_the_secret_is_refused(old: Dev) -> None:
    """S1: the exit code is 4."""
    done = taskplane("user", "erase", "local", "--yes", "--grpc", old.grpc)
    assert done.returncode == 4 and "BAD_SIGNATURE" in done.stderr


def test_gc_without_a_plane_exits_3_and_names_the_address(tmp_path: Path) -> None:
    with refusing_port() as port:
        address = f"127.0.0.1:{port}"
        done = taskplane("gc", "--grpc", address, cwd=tmp_path)
    assert done.returncode == 3 and address in done.stderr
