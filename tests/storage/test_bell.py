"""The bell: heard by who waits, remembered by who is about to wait."""

import asyncio

import pytest

from taskplane.storage.bell import Listener


async def test_a_notification_wakes_the_waiting_task() -> None:
    listener, other = Listener(), Listener()
    waiting = asyncio.create_task(listener.wait(5))
    idle = asyncio.create_task(other.wait(0.05))
    await asyncio.sleep(0)
    listener.notify()
    assert await waiting is True
    assert await idle is False


async def test_a_ring_between_listening_and_waiting_is_not_missed() -> None:
    """Listen, then read, then wait: what is committed while one reads spares the waiting. Many rings are one."""
    listener = Listener()
    listener.notify()
    listener.notify()
    assert await listener.wait(0) is True
    assert await listener.wait(0.01) is False


async def test_a_wait_without_a_ring_ends_after_its_time() -> None:
    assert await Listener().wait(0.01) is False


async def test_a_wait_that_is_cancelled_leaves_the_listener_usable() -> None:
    listener = Listener()
    waiting = asyncio.create_task(listener.wait(5))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    listener.notify()
    assert await listener.wait(0) is True
