"""The bell: heard by all who listen, remembered by those who are about to wait, forgotten by nobody who left."""

import asyncio

import pytest

from taskplane.storage.bell import Bell


@pytest.fixture
def bell() -> Bell:
    return Bell()


async def test_a_ring_wakes_all_who_wait_for_its_key_and_nobody_else(bell: Bell) -> None:
    with bell.listen("a") as first, bell.listen("a") as second, bell.listen("b") as other:
        waiting = [asyncio.create_task(listener.wait(5)) for listener in (first, second)]
        idle = asyncio.create_task(other.wait(0.05))
        await asyncio.sleep(0)
        bell.ring(["a"])
        assert await asyncio.gather(*waiting) == [True, True]
        assert await idle is False


async def test_a_ring_between_listening_and_waiting_is_not_missed(bell: Bell) -> None:
    """Listen, then read, then wait: what is committed while one reads spares the waiting."""
    with bell.listen("a") as listener:
        bell.ring(["a", "a", "b"])
        assert await listener.wait(0) is True
        assert await listener.wait(0.01) is False


async def test_a_wait_without_a_ring_ends_after_its_time(bell: Bell) -> None:
    with bell.listen("a") as listener:
        assert await listener.wait(0.01) is False


async def test_ring_all_wakes_everybody(bell: Bell) -> None:
    with bell.listen("a") as first, bell.listen("b") as second:
        bell.ring_all()
        assert await first.wait(0) and await second.wait(0)


async def test_a_wait_that_is_cancelled_leaves_the_listener_usable(bell: Bell) -> None:
    with bell.listen("a") as listener:
        waiting = asyncio.create_task(listener.wait(5))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bell.ring(["a"])
        assert await listener.wait(0) is True


async def test_a_ring_that_nobody_hears_is_no_error_and_leaves_nothing(bell: Bell) -> None:
    bell.ring(["a"])
    with bell.listen("a") as listener:
        assert await listener.wait(0) is False
    with bell.listen("a"), bell.listen("a"):
        pass
    assert vars(bell) == {"_listeners": {}}
