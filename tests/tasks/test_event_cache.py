"""The cache in memory is bounded, without a gap, and only ever a copy."""

from tests.tasks.test_wire import created

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks import wire
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.watch import EventCache
from taskplane.tasks.watch.ring import Ring

ROW = created().row


def row(uid: str = "uid", generation: int = 1) -> Row:
    return ROW._replace(uid=uid, id=f"id of {uid}", generation=generation)


def event(generation: int, size: int = 10, uid: str = "uid") -> Event:
    payload = a2a.StreamResponse(message=a2a.Message(message_id="x" * size)).SerializeToString()
    return Event(uid, generation, None, None, 1, 1, 2, 0, "actor", None, None, None, False, payload, 0, None)


def wrote(row: Row, *events: Event, task: a2a.Task | None = None) -> Changed:
    return Changed(row, events, task, task.SerializeToString() if task is not None else None)


def generations(ring: Ring, place: int, max_bytes: int = 1 << 30) -> list[int]:
    return [each.generation for each in ring.after(place, max_bytes)]


def test_a_ring_keeps_the_newest_events_up_to_its_number_and_its_bytes() -> None:
    ring = Ring(max_events=3, max_bytes=100_000)
    ring.add([event(generation) for generation in range(1, 6)])
    assert generations(ring, 2) == [3, 4, 5]
    ring = Ring(max_events=100, max_bytes=3000)
    ring.add([event(generation, size=1000) for generation in range(1, 6)])
    assert generations(ring, 3) == [4, 5]
    assert ring.size <= 3000
    ring.add([event(6, size=5000)])
    assert ring.size == 0
    assert generations(ring, 5) == []


def test_a_ring_answers_only_where_it_has_all_that_follows() -> None:
    ring = Ring(max_events=3, max_bytes=100_000)
    assert generations(ring, 0) == []
    ring.add([event(generation) for generation in range(4, 7)])
    assert generations(ring, 2) == []
    assert generations(ring, 3) == [4, 5, 6]
    assert generations(ring, 5) == [6]
    assert generations(ring, 6) == []
    assert generations(ring, 9) == []


def test_a_hole_starts_a_ring_anew() -> None:
    ring = Ring(max_events=10, max_bytes=100_000)
    ring.add([event(1), event(2)])
    ring.add([event(4), event(5)])
    assert generations(ring, 0) == []
    assert generations(ring, 2) == []
    assert generations(ring, 3) == [4, 5]


def test_a_batch_is_bounded_in_bytes_and_has_at_least_one_event() -> None:
    ring = Ring(max_events=10, max_bytes=100_000)
    ring.add([event(generation, size=1000) for generation in range(1, 6)])
    assert generations(ring, 0, 2500) == [1, 2]
    assert generations(ring, 2, 10) == [3]


def test_watchers_that_go_together_share_their_messages() -> None:
    ring = Ring(max_events=10, max_bytes=100_000)
    ring.add([event(1), event(2)])
    events = ring.after(0, 1000)
    assert ring.batch(events, wire.event) is ring.batch(ring.after(0, 1000), wire.event)
    assert ring.message(events[0], wire.event) is ring.message(ring.after(0, 1000)[0], wire.event)


def test_the_least_recently_used_task_goes_first() -> None:
    cache = EventCache(wire.event, max_bytes=40_000)
    for uid in ("a", "b"):
        cache.committed(Committed([wrote(row(uid), event(1, uid=uid))]))
    cache.committed(Committed([wrote(row("a", 2), event(2, uid="a"))]))
    cache.committed(Committed([wrote(row("c"), event(1, uid="c"))]))
    assert len(cache) == 2
    assert cache.get("b") is None
    assert cache.find(ROW.tenant, "id of b") is None
    found = cache.find(ROW.tenant, "id of a")
    assert found is not None
    assert found.row.generation == 2


def test_bytes_of_all_tasks_together_are_bounded() -> None:
    cache = EventCache(wire.event, max_bytes=400_000)
    for index in range(100):
        cache.committed(Committed([wrote(row(str(index)), event(1, 10_000, str(index)))]))
    assert 10 <= len(cache) <= 20
    cache.committed(Committed([wrote(row("99", 2), event(2, 500_000, "99"))]))
    assert cache.get("99") is None
    assert cache.find(ROW.tenant, "id of 99") is None
    assert len(cache) >= 10


def test_a_task_that_was_deleted_is_forgotten_and_its_id_may_be_taken_again() -> None:
    cache = EventCache(wire.event)
    cache.committed(Committed([wrote(row("a"), event(1, uid="a"))]))
    again = row("b")._replace(id="id of a")
    cache.committed(Committed([wrote(again, event(1, uid="b"))], deleted=[wrote(row("a"))]))
    assert cache.get("a") is None
    found = cache.find(ROW.tenant, "id of a")
    assert found is not None
    assert found.row.uid == "b"


def test_a_lease_alone_caches_no_task() -> None:
    cache = EventCache(wire.event)
    cache.committed(Committed([wrote(row())]))
    assert len(cache) == 0


def test_content_is_given_for_exactly_its_generation() -> None:
    cache = EventCache(wire.event)
    task = a2a.Task(id="folded")
    cache.committed(Committed([wrote(row(generation=2), event(2), task=task)]))
    assert cache.task_at("uid", 2) is task
    assert cache.task_at("uid", 1) is None
    cache.committed(Committed([wrote(row(generation=3), event(3))]))
    assert cache.task_at("uid", 3) is None
    assert cache.task_at("other", 3) is None


def test_a_late_commit_does_not_revert_the_cache() -> None:
    cache = EventCache(wire.event)
    cache.committed(Committed([wrote(row(generation=1), event(1))]))
    cache.committed(Committed([wrote(row(generation=3), event(3))]))
    cache.committed(Committed([wrote(row(generation=2), event(2))]))
    found = cache.get("uid")
    assert found is not None and found.row.generation == 3
    assert generations(found.ring, 2) == [3]
