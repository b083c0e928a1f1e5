"""`taskplane gc` and `taskplane user erase`: what the operator deletes. C16."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.command import Dev, dev, taskplane
from tests.support.ports import refusing_port

SECRET = {"TASKPLANE_TASKS_INTERNAL_SECRET": "s" * 40}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Generator[Dev]:
    """A plane that keeps no events of what has ended, and forgets them when it is told to."""
    env = {"TASKPLANE_TASKS_EVENTS_TTL": "0.001", **SECRET}
    with dev(cwd=tmp_path_factory.mktemp("old"), env=env) as started:
        yield started


def chat(plane: Dev, text: str) -> None:
    assert taskplane("chat", "-m", text, "--url", plane.url).returncode == 0


def test_gc_says_what_would_go_and_then_it_is_gone(old: Dev) -> None:
    """C16: in numbers; the task itself is as it was."""
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


def test_a_user_is_erased_once_and_again_finds_nothing(old: Dev) -> None:
    """C16: sessions, tasks and what runs; idempotent."""
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


def test_who_does_not_know_the_secret_is_refused(old: Dev) -> None:
    """S1: exit code 4."""
    done = taskplane("user", "erase", "local", "--yes", "--grpc", old.grpc)
    assert done.returncode == 4 and "BAD_SIGNATURE" in done.stderr


def test_a_plane_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Exit code 3, with the address."""
    with refusing_port() as port:
        address = f"127.0.0.1:{port}"
        done = taskplane("gc", "--grpc", address, cwd=tmp_path)
    assert done.returncode == 3 and address in done.stderr
