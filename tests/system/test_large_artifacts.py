"""An artifact of 50 MiB: the memory of each process while it is made, watched and read."""

from pathlib import Path

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, Plane, running
from tests.system.wire import client, stream, text_message

CHUNKS, CHUNK = 800, 64 * 1024
SIZE = CHUNKS * CHUNK
# The allowed growth of a process, in chunks. It is in docs/operations.md; the largest measured was 450.
MULTIPLE = 640

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        not Path("/proc/self/clear_refs").exists(), reason="peaks of other processes are read from Linux"
    ),
]


def memory(plane: Plane, line: str) -> dict[str, int]:
    """Bytes of each process: `VmRSS` now, `VmHWM` at most since `begin`."""
    found: dict[str, int] = {}
    for name, process in plane.processes.items():
        status = Path(f"/proc/{process.pid}/status").read_text()
        found[name] = 1024 * int(status.partition(f"{line}:")[2].split()[0])
    return found


def begin(plane: Plane) -> dict[str, int]:
    """The bytes of each process. Their peaks are counted from here on."""
    for process in plane.processes.values():
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return memory(plane, "VmRSS")


def grown(plane: Plane, before: dict[str, int]) -> dict[str, float]:
    """By how many chunks each process has grown at most."""
    return {name: (peak - before[name]) / CHUNK for name, peak in memory(plane, "VmHWM").items()}


async def produced(http: httpx.AsyncClient, chunks: int) -> tuple[str, int]:
    """Returns the id of a task with an artifact of that many chunks, and the number of characters that a client saw."""
    task_id, seen = "", 0
    message = {"message": text_message(f"chunks {chunks} {CHUNK}"), "configuration": {"historyLength": 0}}
    async with stream(http, "SendStreamingMessage", message) as events:
        async for event in events:
            if "task" in event.result:
                task_id = event.result["task"]["id"]
            for part in event.result.get("artifactUpdate", {"artifact": {"parts": ()}})["artifact"]["parts"]:
                seen += len(part["text"])
    return task_id, seen


async def fetched(http: httpx.AsyncClient, path: str, **headers: str) -> int:
    """The bytes that are sent."""
    async with http.stream("GET", path, headers=headers) as response:
        assert response.is_success
        return sum([len(piece) async for piece in response.aiter_bytes()])


@pytest.mark.one_engine
async def test_memory_for_an_artifact_of_50_mib_is_bounded_by_a_multiple_of_a_chunk(
    server: Cluster | None, tmp_path: Path
) -> None:
    """P5, P7, C13: in each process, while an agent makes the artifact and a client watches, during its download, and
    during a read of its log."""
    async with running("four", tmp_path, STEADY, server=server) as plane, client(plane.url) as http:
        await produced(http, 4)
        grew: dict[str, dict[str, float]] = {}
        before = begin(plane)
        task_id, seen = await produced(http, CHUNKS)
        grew["made and watched"] = grown(plane, before)
        path = f"/api/tasks/{task_id}"
        before = begin(plane)
        whole = await fetched(http, f"{path}/artifacts/chunks")
        part = await fetched(http, f"{path}/artifacts/chunks", range=f"bytes={SIZE // 2}-")
        grew["downloaded"] = grown(plane, before)
        before = begin(plane)
        log = await fetched(http, f"{path}/events")
        grew["its log"] = grown(plane, before)
    print(grew)
    assert (seen, whole, part) == (SIZE, SIZE, SIZE // 2) and log > SIZE
    too_much = {(what, name): by for what, each in grew.items() for name, by in each.items() if by > MULTIPLE}
    assert not too_much, grew
