"""`taskplane tail` against a real plane."""

import asyncio
import json
import re
from urllib.parse import urlsplit

from tests.cli.command import taskplane
from tests.support.cutting import cutting


def made(url: str, text: str) -> str:
    """Sends a message and returns the id of its ended task."""
    task_id: str = json.loads(taskplane("chat", "--url", url, "-m", text, "-o", "json").stdout)["taskId"]
    return task_id


def test_each_event_is_one_line_with_time_distance_number_state_and_text(url: str) -> None:
    done = taskplane("tail", made(url, "hello"), "--url", url)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  \+0\.000s  #1  submitted  hello", lines[0])
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3}  \+\d+\.\d{3}s  #\d+  [a-z-]+", line) for line in lines)
    assert [int(re.findall(r"#(\d+)", line)[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1].split("  ")[3] == "completed"


def test_ndjson_is_the_log_with_the_number_of_each_event(url: str) -> None:
    events = [
        json.loads(line)
        for line in taskplane("tail", made(url, "hi"), "--url", url, "-o", "ndjson").stdout.splitlines()
    ]
    assert [event["generation"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["kind"] == "created"
    assert all(event["id"].endswith(f"-{event['generation']}") for event in events)


def test_after_a_cursor_tail_prints_exactly_the_rest_and_after_the_last_one_nothing(url: str) -> None:
    task = made(url, "chunks 5 8")
    whole = taskplane("tail", task, "--url", url, "-o", "ndjson").stdout.splitlines()
    third = json.loads(whole[2])["id"]
    assert taskplane("tail", task, "--url", url, "-o", "ndjson", "--after", third).stdout.splitlines() == whole[3:]
    last = taskplane("tail", task, "--url", url, "--after", json.loads(whole[-1])["id"])
    assert (last.returncode, last.stdout) == (0, "")


def test_a_failed_task_exits_1_and_an_unknown_task_exits_5(url: str) -> None:
    assert taskplane("tail", made(url, "fail broken"), "--url", url).returncode == 1
    missing = taskplane("tail", "no-such-task", "--url", url)
    assert missing.returncode == 5
    assert missing.stderr.startswith("✗ ")


async def test_p12_a_cut_connection_is_resumed_and_the_message_has_the_cursor_and_no_loss(url: str) -> None:
    """C5: the log arrives complete and in order over a connection that breaks within an event."""
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    task = await asyncio.to_thread(made, url, "chunks 200 32")
    async with cutting(server.hostname, server.port) as proxy:
        proxy.cut_after = 12_000
        through = f"http://127.0.0.1:{proxy.port}"
        done = await asyncio.to_thread(taskplane, "tail", task, "--url", through, "-o", "ndjson")
        assert proxy.cuts == 1
    numbers = [json.loads(line)["generation"] for line in done.stdout.splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 200
    assert re.search(r"resumed after [a-z2-7]+-\d+, 0 lost", done.stderr)
