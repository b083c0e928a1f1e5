"""`taskplane serve`: one process of the plane."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import PATIENCE, PROGRAM, environment

pytestmark = pytest.mark.more

ROOMS = {
    "tasks": ({"TASKPLANE_TASKS_LISTEN": "127.0.0.1:0"}, "task store ready: gRPC 127.0.0.1:"),
    "sessions": ({"TASKPLANE_SESSIONS_LISTEN": "127.0.0.1:0"}, "session history ready: gRPC 127.0.0.1:"),
    "executor": ({"TASKPLANE_EXECUTOR_LISTEN": "127.0.0.1:0"}, "executor ready: gRPC 127.0.0.1:"),
    "gateway": (
        {"TASKPLANE_GATEWAY_PORT": "0", "TASKPLANE_GATEWAY_GRPC_PORT": "0"},
        "gateway ready: http://127.0.0.1:",
    ),
}


@pytest.mark.parametrize("room", ROOMS)
def test_c14_a_process_logs_once_that_it_is_ready_and_exits_0_on_a_signal(room: str, tmp_path: Path) -> None:
    settings, ready = ROOMS[room]
    with subprocess.Popen(
        [*PROGRAM, "serve", room],
        cwd=tmp_path,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(json.loads(line)["message"])
            if said[-1].startswith(ready):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said[-1].startswith(ready)
    assert sorted(said) == sorted(set(said))
