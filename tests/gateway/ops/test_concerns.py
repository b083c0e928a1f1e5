"""Conditions that need the attention of an operator, computed from figures alone."""

from typing import Any

import pytest

from taskplane.gateway.ops.concerns import concerns

Json = dict[str, Any]


def executor(id: str = "e1", *, alive: bool = True, leases: int = 1, seen: float = 1.0) -> Json:
    return {"id": id, "alive": alive, "leases": leases, "lastSeenSeconds": seen}


def queue(agent: str = "demo", queued: int = 1, oldest: float = 0.0, *, unserved: bool = False) -> Json:
    return {"agent": agent, "queued": queued, "oldestSeconds": oldest, "unserved": unserved}


def backlog(count: int = 0, oldest: float | None = None) -> Json:
    return {"count": count, "oldestSeconds": oldest}


def taken(slots: int = 100, held: int = 0, others: int = 0, **holders: int) -> Json:
    by = [{"owner": owner, "slots": number} for owner, number in holders.items()]
    return {"slots": slots, "held": held or sum(holders.values()), "heldByOthers": others, "holders": by}


def found(**figures: Any) -> list[dict[str, str]]:
    """Return the concerns for the figures of one working executor with these changes."""
    usual: Json = {"queue": [], "executors": [executor()], "capacity": taken()}
    return concerns({**usual, "uncopied": backlog(), "abandoned": backlog(), **figures})


def codes(**figures: Any) -> list[str]:
    return [each["code"] for each in found(**figures)]


def message(**figures: Any) -> str:
    """Return the sentence of the only concern."""
    (only,) = found(**figures)
    return only["message"]


def test_there_is_no_concern_while_executors_are_alive_and_waits_are_short() -> None:
    """V4: nor without an executor and without waiting tasks, nor for a lost executor without leases."""
    assert found() == []
    assert found(executors=[]) == []
    assert found(executors=[executor(), executor("gone", alive=False, leases=0, seen=3000)]) == []
    assert found(queue=[queue(oldest=9.999)], uncopied=backlog(1, 59.999)) == []


def test_each_concern_begins_exactly_at_its_threshold() -> None:
    """V4: a queue at 10 seconds, uncopied messages at one minute, all others at once."""
    assert codes(queue=[queue(oldest=10.0)]) == ["SLOW_QUEUE"]
    assert codes(uncopied=backlog(1, 60.0)) == ["UNCOPIED"]
    assert codes(abandoned=backlog(1, 0.0)) == ["ABANDONED"]
    assert codes(executors=[], queue=[queue(unserved=True)]) == ["NO_EXECUTOR"]
    assert codes(queue=[queue(unserved=True)]) == ["AGENT_UNSERVED"]
    assert codes(executors=[executor(), executor("e2", alive=False)]) == ["SILENT"]


def test_concerns_are_sorted_by_urgency() -> None:
    """V4: without any executor there is no concern about a slow queue."""
    silent = executor("e2", alive=False)
    left = {"uncopied": backlog(1, 90.0), "abandoned": backlog(2, 1.0)}
    waiting = [queue("a", 1, 20.0), queue("b", 1, 5.0), queue("c", 1, 30.0)]
    every = found(executors=[silent], queue=waiting, **left)
    assert [each["code"] for each in every] == ["NO_EXECUTOR", "SILENT", "UNCOPIED", "ABANDONED"]
    assert [each.get("executor") for each in every] == [None, "e2", None, None]
    assert all(each["suggestion"] for each in every)
    waiting.append(queue("d", 1, 40.0, unserved=True))
    some = codes(executors=[executor(), silent, executor("e3", alive=False)], queue=waiting, **left)
    assert some == ["AGENT_UNSERVED", "SILENT", "SILENT", "SLOW_QUEUE", "SLOW_QUEUE", "UNCOPIED", "ABANDONED"]


def test_a_sentence_distinguishes_singular_and_plural() -> None:
    """V4: it has the number and the duration."""
    assert message(executors=[], queue=[queue(oldest=40.0)]) == (
        "1 task has been waiting for an executor for 40 seconds, and no executor is alive."
    )
    assert message(executors=[], queue=[queue("a", 1200, 1.0), queue("b", 34, 40.0)]) == (
        "1,234 tasks have been waiting for an executor for up to 40 seconds, and no executor is alive."
    )
    assert message(queue=[queue(queued=1, oldest=61.0)]) == (
        "1 task of agent demo has been waiting for an executor for 1 minute 1 second."
    )
    assert message(queue=[queue("", 3, 120.0)]) == (
        "3 tasks without an agent have been waiting for an executor for up to 2 minutes."
    )
    assert message(queue=[queue("far", 2, 0.5, unserved=True)]) == (
        "2 tasks of agent far have been waiting for an executor for less than a second, and no living process runs it."
    )
    assert message(uncopied=backlog(1, 60.0)) == "1 task has messages that are missing in its session, for 1 minute."
    assert message(uncopied=backlog(2, 90.0)) == (
        "2 tasks have messages that are missing in their sessions, for up to 1 minute 30 seconds."
    )
    assert message(abandoned=backlog(1, 1.0)) == (
        "1 turn is abandoned: its message has led to no answer and to no task, for 1 second."
    )
    assert message(abandoned=backlog(2, 7300.0)) == (
        "2 turns are abandoned: their messages have led to no answer and to no task, for up to 2 hours 1 minute."
    )


def test_the_concern_about_a_silent_executor_explains_the_fate_of_its_tasks() -> None:
    """V4: without a known last contact the text is "for an hour or more"."""
    (one,) = found(executors=[executor("e2", alive=False, leases=1, seen=40.2)])
    assert one["message"] == "Executor e2 was last heard from 40 seconds ago and holds 1 task."
    assert "Its task runs again or fails, by the policy of its agent, once its lease has expired" in one["suggestion"]
    (many,) = found(executors=[executor("e2", alive=False, leases=2, seen=0.0)])
    assert many["message"] == "Executor e2 has not been heard from for an hour or more and holds 2 tasks."
    assert "Its tasks run again or fail, by the policies of their agents, once their leases" in many["suggestion"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "less than a second"),
        (59.9, "59 seconds"),
        (3600.0, "1 hour"),
        (3659.0, "1 hour"),
        (93_600.0, "1 day 2 hours"),
        (864_000.0, "10 days"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, words: str) -> None:
    """V4: the second one is the next smaller unit."""
    assert message(abandoned=backlog(1, seconds)).endswith(f" for {words}.")
    assert ("up to" in message(abandoned=backlog(2, seconds))) is (seconds >= 1)


def test_the_holders_of_the_capacity_are_named_while_others_wait_for_it() -> None:
    """L2: owners of the tenant by name, other tenants by number. There is no concern while nothing waits and a slot is
    free."""
    held = taken(100, 81, 7, ann=60, bob=12, carl=4)
    waiting = [queue(queued=3, oldest=12.0)]
    assert codes(capacity=held) == codes(queue=[queue(oldest=9.0)], capacity=held) == []
    assert codes(queue=waiting) == ["SLOW_QUEUE"]
    slow, whose = found(queue=waiting, capacity=held)
    assert (slow["code"], whose["code"]) == ("SLOW_QUEUE", "CAPACITY_HELD")
    assert whose["message"] == (
        "88 of 100 slots are taken: 60 by tasks of ann, 12 by tasks of bob, 4 by tasks of carl, "
        "5 by tasks of other owners, 7 by tasks of other tenants."
    )
    assert "taskplane ops tasks" in whose["suggestion"]


def test_a_fully_used_capacity_is_a_concern_at_once() -> None:
    """L2: also if other tenants alone hold it. While nothing waits, an unknown capacity is no concern."""
    assert message(capacity=taken(1, 1, ann=1)) == "1 of 1 slot is taken: 1 by tasks of ann."
    assert message(capacity=taken(8, 0, 8)) == "8 of 8 slots are taken: 8 by tasks of other tenants."
    assert codes(capacity=taken(0, 0, 8)) == codes(capacity=taken(0)) == []
    assert found(queue=[queue(oldest=12.0)], capacity=taken(0, ann=3))[1]["message"] == (
        "3 slots are taken: 3 by tasks of ann."
    )
