"""Random ids: no two are the same, in whatever thread or process they are made."""

import os
from concurrent.futures import ThreadPoolExecutor

from taskplane.runtime.ids import new_id, random_bytes


def test_ids_never_repeat_whichever_thread_asks() -> None:
    """Several times more of them than are drawn at once."""
    with ThreadPoolExecutor(4) as threads:
        ids = [made.result() for made in [threads.submit(new_id) for _ in range(4_000)]]
    assert len(set(ids)) == 4_000
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids)


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
