"""Random requests: a healthy plane answers each of them quickly, with a code if it refuses, and stays healthy.
`FUZZ_SEED` is the seed, `FUZZ_REQUESTS` the number of requests. A failed request is written to a file as it was sent:
`nc 127.0.0.1 8080 <FILE` sends it again."""

import asyncio
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from tests.support.thorough import THOROUGH
from tests.system.fuzz_answers import BOUND, Answer, asked, described
from tests.system.fuzz_bodies import Pool
from tests.system.fuzz_cases import Case
from tests.system.fuzzing import Requests
from tests.system.plane import STEADY, running
from tests.system.untouched import failures, no_streams
from tests.system.wire import Json, client, send, until

from taskplane.gateway.routes import ROUTES

pytestmark = pytest.mark.more

SEED: Final = os.environ.get("FUZZ_SEED", "1")
REQUESTS: Final = int(os.environ.get("FUZZ_REQUESTS", "20000" if THOROUGH else "2000"))
AT_ONCE: Final = 6
# Settings that keep the limits of other tests out of reach.
SETTINGS: Final = {
    **STEADY,
    "TASKPLANE_EXECUTOR_ALLOW_CRASH": "false",
    "TASKPLANE_EXECUTOR_SENDS_PER_SECOND": "0",
    "TASKPLANE_EXECUTOR_BLOCKED_AFTER": "4",
    "TASKPLANE_GATEWAY_BODY_TIMEOUT": "0.5",
}
CODE: Final = re.compile(r"[A-Z][A-Z0-9_]+")
# Codes for failures of a server.
# The status of an operation that is not supported, over REST of A2A 0.3.
_NOT_SUPPORTED = 501
FAULTS: Final = {"INTERNAL", "INTERNAL_ERROR", "UNKNOWN"}
AGENTS_FAULTS: Final = '"logger":"taskplane.agents.faults"'
BLOCKED: Final = '"logger":"taskplane.executor.runs.blocking"'
# The HTTP server's own answer to invalid HTTP.
NO_HTTP: Final = b"Invalid HTTP request received."


def wrong(case: Case, answer: Answer) -> str:
    """Returns the fault of an answer; empty if it is correct."""
    if not answer.status:
        return "" if case.left or not case.framed else "no answer"
    if answer.status >= 500 and answer.status != _NOT_SUPPORTED:
        return f"status {answer.status}"
    if answer.streams:
        return _wrong_stream(answer.body)
    if answer.kind in ("application/json", "application/a2a+json") and answer.body:
        try:
            body = json.loads(answer.body, parse_int=_integer)
        except ValueError:
            return "an answer that is no JSON"
        # An artifact may be any JSON.
        return _wrong_body(answer.status, body) if isinstance(body, dict) or answer.status >= 400 else ""
    if answer.status >= 400 and case.method != "HEAD":
        return "" if answer.body == NO_HTTP and not case.framed else "an error without a code"
    return ""


def _integer(digits: str) -> int:
    # The id of a request comes back at any length, and Python reads no longer numbers.
    return int(digits[:4000])


def _wrong_stream(body: bytes) -> str:
    """Returns the fault of the complete events. Under /api an error has a name, and other events may have one."""
    for event in body.split(b"\n\n")[:-1]:
        data = next(line[6:] for line in event.split(b"\n") if line.startswith(b"data: "))
        if data.startswith(b'{"jsonrpc"') or b"event: error\n" in event:
            what = _wrong_body(200, json.loads(data, parse_int=_integer))
            if what:
                return what
    return ""


def _wrong_body(status: int, body: Any) -> str:
    if not isinstance(body, dict):
        return f"an answer that is {body!r:.50}"
    found: Json = body  # pyright: ignore[reportUnknownVariableType]
    error: Any = found.get("error")
    if not error:
        return "an error without a text" if status >= 400 else ""
    if "jsonrpc" not in found and "reason" in found:
        code = found.get("code", "")
        return "" if CODE.fullmatch(code) and code not in FAULTS else f"an error with the code {code}"
    if "details" in error:
        return _wrong_rest_error(status, error)
    data = error.get("data")
    # Of 1.0 a list of details, of 0.3 an object.
    reason = (data if "reason" in data else data[0])["reason"]
    fine = -32800 < error["code"] < -32000 and error["code"] != -32603 and CODE.fullmatch(reason)
    return "" if fine else f"an error with the code {error['code']} and the reason {reason}"


def _wrong_rest_error(status: int, error: Json) -> str:
    code, reason = error["code"], error["details"][0]["reason"]
    # In a stream the status was sent before.
    known = code < 500 or (code == _NOT_SUPPORTED and reason.endswith(("_NOT_SUPPORTED", "UNSUPPORTED_OPERATION")))
    fine = status in (200, code) and known and CODE.fullmatch(reason) and reason not in FAULTS
    return "" if fine else f"an error with the status {code} and the reason {reason}"


@pytest.mark.timeout(1800 if THOROUGH else 300)
async def test_any_request_is_answered_quickly_with_a_valid_code(tmp_path: Path) -> None:
    """S1, T1: no request makes the plane fail, wait or log a fault, and afterwards it works."""
    async with running("one", tmp_path, SETTINGS) as plane:
        requests = Requests(SEED, Pool())
        statuses: Counter[int] = Counter()
        slow: list[tuple[float, Case]] = []
        faults: list[str] = []
        numbers = iter(range(REQUESTS))

        async def work() -> None:
            for number in numbers:
                case = requests.make(number)
                answer = await asked(plane, case)
                requests.pool.learn(answer.body)
                statuses[answer.status] += 1
                slow.append((answer.seconds, case))
                if what := wrong(case, answer):
                    faults.append(described(tmp_path, case, what))

        await asyncio.gather(*[work() for _ in range(AT_ONCE)])
        slow.sort(key=lambda each: -each[0])
        print(f"{REQUESTS} requests of seed {SEED}: {dict(sorted(statuses.items()))}")
        slowest = [(round(seconds, 2), case.number, case.method, case.target[:60]) for seconds, case in slow[:5]]
        print(f"slowest: {slowest}")
        for seconds, case in slow:
            if seconds > BOUND and (alone := min([(await asked(plane, case)).seconds for _ in range(3)])) > BOUND:
                faults.append(described(tmp_path, case, f"{seconds:.1f} s, and {alone:.1f} s alone"))
        await plane.ready()
        async with client(plane.url) as http:
            await until(lambda: no_streams(http))
            faults += await unreadable(http)
            assert (await send(http, "hello"))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert not faults, "\n".join(faults)
        # A failed agent is not a fault of the plane.
        assert [line for line in failures(plane) if AGENTS_FAULTS not in line] == []
        # A request that is quick when repeated may have had more to read at first.
        blocked = [line for line in (tmp_path / "dev.log").read_text(errors="replace").splitlines() if BLOCKED in line]
        assert blocked == []


async def unreadable(http: httpx.AsyncClient) -> list[str]:
    """Returns the routes on which a stored session cannot be read."""
    found: list[str] = []
    sessions = (await http.get("/api/sessions")).json()["data"]
    reads = [
        route.path for route in ROUTES if route.method == "GET" and route.path.startswith("/api/sessions/{session}")
    ]
    for session in sessions[: None if THOROUGH else 20]:
        for path in [path.replace("{session}", quote(session["id"], safe="")) for path in reads]:
            if not path.endswith("/watch"):
                reply = await http.get(path)
                whole = not path.endswith("/export") or b'"type":"end"' in reply.content[-300:]
                if reply.status_code != 200 or not whole:
                    found.append(f"{path}: {reply.status_code} {reply.text[-200:]}")
    return found
