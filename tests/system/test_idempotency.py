"""One idempotency key, one effect: at once, later, after a restart, over two executors."""

import asyncio
from itertools import product
from pathlib import Path

import httpx
import pytest
from tests.support.cutting import cutting
from tests.support.ports import free_port
from tests.support.postgres import Cluster
from tests.system.judge import logs
from tests.system.plane import STEADY, running
from tests.system.wire import call, client, request, result, text_message


async def test_fifty_sends_with_one_key_make_one_task_and_one_run(server: Cluster | None, tmp_path: Path) -> None:
    """C10, P2: also one direct answer, without a context, after a restart; another body is a typed conflict."""
    async with running("one", tmp_path, STEADY, server=server) as plane:
        async with client(plane.url) as http:
            message = text_message("echo once")
            key = {"Idempotency-Key": "key-1"}
            answers = await asyncio.gather(
                *(result(http, "SendMessage", {"message": message}, **key) for _ in range(50))
            )
            ids = {answer["task"]["id"] for answer in answers}
            assert len(ids) == 1
            assert {answer["task"]["status"]["state"] for answer in answers} == {"TASK_STATE_COMPLETED"}
            direct = text_message("message hi")
            replies = await asyncio.gather(
                *(result(http, "SendMessage", {"message": direct}, **{"Idempotency-Key": "key-2"}) for _ in range(50))
            )
            assert all(reply == replies[0] for reply in replies)
            other = await call(http, "SendMessage", {"message": text_message("echo twice")}, **key)
            assert other["error"]["code"] == -32602
            assert "KEY_REUSED" in str(other["error"])
            control = await asyncio.gather(*(result(http, "SendMessage", {"message": message}) for _ in range(5)))
            assert len({answer["task"]["id"] for answer in control}) == 5
        await plane.kill("dev")
        await plane.start("dev")
        async with client(plane.url) as http:
            again = await result(http, "SendMessage", {"message": message}, **key)
            assert again["task"]["id"] in ids
            direct_again = await result(http, "SendMessage", {"message": direct}, **{"Idempotency-Key": "key-2"})
            assert direct_again == replies[0]
        await plane.stop()
    assert len(await logs(plane)) == 6


async def test_sends_with_one_key_to_two_executors_make_one_task(server: Cluster | None, tmp_path: Path) -> None:
    """C10: two executor processes on one store; the first client leaves before it gets an answer."""
    async with running("four", tmp_path, STEADY, server=server) as plane:
        executor, gateway = free_port(), free_port()
        first = plane.environment
        plane.environment = first | {
            "TASKPLANE_EXECUTOR_LISTEN": f"127.0.0.1:{executor}",
            "TASKPLANE_GATEWAY_EXECUTOR": f"127.0.0.1:{executor}",
            "TASKPLANE_GATEWAY_PORT": str(gateway),
            "TASKPLANE_GATEWAY_GRPC_PORT": "0",
        }
        url = plane.url
        plane.commands |= {"executor2": ["serve", "executor"], "gateway2": ["serve", "gateway"]}
        plane.url = f"http://127.0.0.1:{gateway}"
        await plane.start("executor2", "gateway2")
        message = text_message("slow 4")
        key = {"Idempotency-Key": "shared"}
        async with client(url) as one, client(plane.url) as two:
            body = request("SendMessage", {"message": message})
            cut = asyncio.create_task(one.post("/", json=body, headers={"A2A-Version": "1.0", **key}))
            await asyncio.sleep(0.05)
            cut.cancel()
            answers = await asyncio.gather(
                *(result(http, "SendMessage", {"message": message}, **key) for http in (one, two) for _ in range(5))
            )
        await plane.stop()
    assert len({answer["task"]["id"] for answer in answers}) == 1
    assert {answer["task"]["status"]["state"] for answer in answers} == {"TASK_STATE_COMPLETED"}
    events = await logs(plane)
    assert len(events) == 1
    assert len({event.fence for log in events.values() for event in log if event.fence}) == 1


async def test_a_send_repeated_after_a_cut_answer_is_executed_once(server: Cluster | None, tmp_path: Path) -> None:
    """C10: the connection breaks during the answer; the same request on another connection gets it."""
    async with running("one", tmp_path, STEADY, server=server) as plane, client(plane.url) as straight:
        host, port = plane.url.removeprefix("http://").split(":")
        for text, method in product(("echo once", "message hi"), ("SendMessage", "SendStreamingMessage")):
            async with cutting(host, int(port)) as proxy, client(f"http://127.0.0.1:{proxy.port}") as http:
                message = text_message(text)
                key = {"Idempotency-Key": f"{method} {text}"}
                proxy.cut_after = 40
                with pytest.raises(httpx.TransportError):
                    body = request(method, {"message": message})
                    await http.post("/", json=body, headers={"A2A-Version": "1.0", **key})
                assert proxy.cuts == 1
                answers = [await result(each, "SendMessage", {"message": message}, **key) for each in (http, straight)]
                assert answers[0] == answers[1], (text, method)
        await plane.stop()
    events = await logs(plane)
    assert len(events) == 2
    assert {event.fence for log in events.values() for event in log if event.fence} <= {1}
