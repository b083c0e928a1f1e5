"""`taskplane doctor` with real planes, healthy and faulty."""

import asyncio
import json
import socket
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
from tests.cli.command import PATIENCE, Dev, dev, json_of, taskplane
from tests.support.http_thread import serving_thread
from tests.support.ports import free_port
from tests.system.plane import STEADY, running


def findings(*arguments: str, code: int = 0) -> dict[str, list[str]]:
    """The status of each finding, by check."""
    done = taskplane("doctor", *arguments, "-o", "json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["check"], []).append(one["status"])
        assert one["message"]
        assert one["suggestion"] or one["status"] == "ok" or one["check"] in ("card", "resume"), one
    return found


def test_a_healthy_plane_passes_every_check_and_gets_no_session(plane: Dev) -> None:
    """P12: a real stream is broken and resumed."""
    before = json_of(plane.url, "session", "list")
    found = findings("--url", plane.url, "--grpc", plane.grpc)
    for check in ("python", "gateway", "clock", "readiness", "version", "caller", "card", "message", "buffering"):
        assert found[check] == ["ok"], check
    assert found["grpc"] == ["ok"] * 4
    assert found["resume"] == ["ok"]
    assert json_of(plane.url, "session", "list") == before


def test_doctor_examines_the_ports_if_the_plane_is_not_there() -> None:
    with socket.socket() as taken, socket.socket() as free:
        for one in (taken, free):
            one.bind(("127.0.0.1", 0))
        taken.listen()
        grpc, http = (f"127.0.0.1:{one.getsockname()[1]}" for one in (taken, free))
        found = findings("--url", f"http://{http}", "--grpc", grpc, code=1)
    assert found["gateway"] == ["failed"]
    assert found["port"] == ["ok", "warning"]


def test_a_missing_key_is_a_failed_check(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    assert taskplane("key", "create", "ann", "--file", str(file)).returncode == 0
    with dev(cwd=tmp_path, env={"TASKPLANE_GATEWAY_API_KEYS": str(file)}) as plane:
        found = findings("--url", plane.url, "--grpc", plane.grpc, code=1)
    assert found["caller"] == ["failed"]


def test_an_agent_without_a_process_is_a_failed_check(tmp_path: Path) -> None:
    """V4: doctor does not keep the message that it sent."""
    (tmp_path / "card.json").write_text(json.dumps({"name": "Far", "description": "d", "version": "1", "skills": []}))
    with dev("--agent", "far=worker:card.json", cwd=tmp_path) as plane:
        arguments = ("doctor", "--url", plane.url, "--grpc", plane.grpc, "--agent", "far")
        done = taskplane(*arguments, "-o", "json")
        assert done.returncode == 1
        (told,) = [one for one in json.loads(done.stdout) if one["check"] == "message"]
        assert told["status"] == "failed"
        assert told["message"].startswith("far: No living process runs the agent far")
        assert "taskplane worker --agent far=MODULE:ATTRIBUTE" in told["suggestion"]
        assert json_of(plane.url, "session", "list") == []


async def test_a_plane_without_executors_is_not_ready_for_turns(tmp_path: Path) -> None:
    """T4: the gateway is degraded, and serves A2A over gRPC all the same."""
    port = free_port()
    settings = {**STEADY, "TASKPLANE_GATEWAY_GRPC_PORT": str(port)}
    async with running("four", tmp_path, settings) as plane, httpx.AsyncClient(base_url=plane.url) as http:
        await plane.terminate("executor")
        async with asyncio.timeout(30):
            while not (await http.get("/readyz")).json()["degraded"]:
                await asyncio.sleep(0.05)
        arguments = ("doctor", "--url", plane.url, "--grpc", f"127.0.0.1:{port}", "-o", "json")
        done = await asyncio.to_thread(taskplane, *arguments)
    assert done.returncode == 1
    told = {one["check"]: one for one in json.loads(done.stdout)}
    assert (told["readiness"]["status"], told["readiness"]["message"]) == (
        "failed",
        "no executor is ready, so no turn runs",
    )
    assert "/readyz" in told["readiness"]["suggestion"]
    assert (told["grpc"]["status"], told["grpc"]["message"].partition(" (")[0]) == ("ok", "A2AService is serving")


@contextmanager
def buffering(url: str) -> Generator[str]:
    """A proxy that holds each answer back until it is complete."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("host", "content-length", "connection", "accept-encoding")
            }
            answer = httpx.request(self.command, url + self.path, content=body, headers=headers, timeout=PATIENCE)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("content-type", "text/plain"))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    with serving_thread(Handler) as proxy:
        yield proxy


def test_a_buffering_proxy_is_found(plane: Dev) -> None:
    with buffering(plane.url) as url:
        found = findings("--url", url, "--grpc", plane.grpc, code=1)
    assert (found["buffering"], found["resume"]) == (["failed"], ["ok"])


def test_findings_are_lines_with_a_mark(plane: Dev) -> None:
    done = taskplane("doctor", "--url", plane.url, "--grpc", "127.0.0.1:1", "--agent", "demo")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "! grpc           no server answers at 127.0.0.1:1" in lines
    assert "✓ buffering      events arrive as they are written" in lines
