"""New ids: no two are the same, in whatever thread or process they are made, and they begin with their time."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122, UUID

from taskplane.runtime.ids import new_id, random_bytes


def test_ids_never_repeat_whichever_thread_asks() -> None:
    """Several times more of them than are drawn at once."""
    with ThreadPoolExecutor(4) as threads:
        ids = [made.result() for made in [threads.submit(new_id) for _ in range(4_000)]]
    assert len(set(ids)) == 4_000
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids)


def test_an_id_is_a_uuid_that_begins_with_its_time() -> None:
    """Version 7: so neighbours in time are neighbours in an index."""
    before = time.time_ns() // 1_000_000
    one = UUID(new_id())
    assert (one.version, one.variant) == (7, RFC_4122)
    assert before <= one.int >> 80 <= time.time_ns() // 1_000_000


def test_a_forked_process_makes_other_ids() -> None:
    """What was drawn before the fork is the parent's."""
    random_bytes()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, random_bytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 16)
    os.close(reading)
    os.close(writing)
    assert theirs not in {random_bytes() for _ in range(600)}
