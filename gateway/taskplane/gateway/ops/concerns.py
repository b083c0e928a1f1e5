"""Rules that find the problems for an operator in the JSON figures of an overview. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_SLOW_QUEUE: Final = 10.0
_UNCOPIED: Final = 60.0
"""Seconds. Executors copy about once a minute."""
_OWNER: Final = 80
"""Characters of a name."""
_SUGGESTIONS: Final = {
    "NO_EXECUTOR": (
        "Start an executor: taskplane serve executor. If one is running, check in its log that it "
        "reaches the task store."
    ),
    "AGENT_UNSERVED": (
        "Start an executor with this agent (taskplane serve executor), or taskplane worker for an agent of workers. If "
        "one is running, it uses another name for the agent, has no slots, or does not reach the task store: check its "
        "log."
    ),
    "SLOW_QUEUE": (
        "The executors that run this agent are full. Start one more (taskplane serve executor, or taskplane worker for "
        "an agent of workers), or raise TASKPLANE_EXECUTOR_CAPACITY."
    ),
    "CAPACITY_HELD": (
        "List the tasks (taskplane ops tasks --owner OWNER --state working) and cancel the unwanted ones. "
        "If all are wanted, start one more executor or raise TASKPLANE_EXECUTOR_CAPACITY."
    ),
    "UNCOPIED": (
        "Executors copy them every minute. If the number does not fall, the session history is unreachable or refuses "
        "them: check its log and the logs of the executors."
    ),
    "ABANDONED": (
        "Executors void or complete them within minutes. If the number does not fall, check that an executor is "
        "running and reaches the session history."
    ),
}
_UNITS: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def concerns(figures: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the problems in `queue`, `executors`, `capacity`, `uncopied` and `abandoned` of an overview, most
    urgent first. An executor that is gone and has left no lease behind does not."""
    return [*_of_executors(figures), *_of_capacity(figures), *_left_behind(figures["uncopied"], figures["abandoned"])]


def _of_executors(figures: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    queue, executors = figures["queue"], figures["executors"]
    alive = any(each["alive"] for each in executors)
    waiting = sum(each["queued"] for each in queue)
    if waiting and not alive:
        longest = max(each["oldestSeconds"] for each in queue)
        yield _concern("NO_EXECUTOR", f"{_waiting(waiting, '', longest)}, and no executor is alive.")
    for each in queue:
        if alive and each["unserved"]:
            yield _concern("AGENT_UNSERVED", f"{_of_agent(each)}, and no living process runs it.")
    yield from (_silent(each) for each in executors if each["leases"] and not each["alive"])
    for each in queue:
        if alive and not each["unserved"] and each["oldestSeconds"] >= _SLOW_QUEUE:
            yield _concern("SLOW_QUEUE", f"{_of_agent(each)}.")


def _of_capacity(figures: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Name the owners of the slots if other tasks wait for one, or if all slots are taken."""
    capacity = figures["capacity"]
    slots, held, others = capacity["slots"], capacity["held"], capacity["heldByOthers"]
    taken = held + others
    # Free slots are of no use to an agent that nothing runs.
    waits = any(each["oldestSeconds"] >= _SLOW_QUEUE and not each["unserved"] for each in figures["queue"])
    if not taken or not (waits or 0 < slots <= taken):
        return
    parts = [f"{each['slots']:,} by tasks of {each['owner'][:_OWNER]}" for each in capacity["holders"]]
    rest = held - sum(each["slots"] for each in capacity["holders"])
    parts += [f"{rest:,} by tasks of other owners"] if rest else []
    parts += [f"{others:,} by tasks of other tenants"] if others else []
    of_all = f"{taken:,} of {_count(slots, 'slot')}" if slots else _count(taken, "slot")
    yield _concern("CAPACITY_HELD", f"{of_all} {'is' if taken == 1 else 'are'} taken: {', '.join(parts)}.")


def _silent(executor: Mapping[str, Any]) -> dict[str, str]:
    leases, seen = executor["leases"], executor["lastSeenSeconds"]
    # 0: the task store has no renewal of it, or has forgotten it.
    heard = f"was last heard from {_duration(seen)} ago" if seen else "has not been heard from for an hour or more"
    held, lapse = (
        ("Its task runs again or fails, by the policy of its agent", "its lease has")
        if leases == 1
        else ("Its tasks run again or fail, by the policies of their agents", "their leases have")
    )
    suggestion = (
        f"It has died or is disconnected: check its host and its log. {held}, once {lapse} expired; no other action is "
        "needed."
    )
    message = f"Executor {executor['id']} {heard} and holds {_count(leases, 'task')}."
    return {"code": "SILENT", "message": message, "suggestion": suggestion, "executor": executor["id"]}


def _left_behind(uncopied: Mapping[str, Any], abandoned: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    count, oldest = uncopied["count"], uncopied["oldestSeconds"] or 0.0
    if count and oldest >= _UNCOPIED:
        lack = (
            "has messages that are missing in its session"
            if count == 1
            else "have messages that are missing in their sessions"
        )
        yield _concern("UNCOPIED", f"{_count(count, 'task')} {lack}, {_for(count, oldest)}.")
    count, oldest = abandoned["count"], abandoned["oldestSeconds"] or 0.0
    if count:
        left = "is abandoned: its message has" if count == 1 else "are abandoned: their messages have"
        yield _concern(
            "ABANDONED", f"{_count(count, 'turn')} {left} led to no answer and to no task, {_for(count, oldest)}."
        )


def _concern(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message, "suggestion": _SUGGESTIONS[code]}


def _waiting(count: int, of: str, longest: float) -> str:
    verb = "has" if count == 1 else "have"
    return f"{_count(count, 'task')}{of} {verb} been waiting for an executor {_for(count, longest)}"


def _of_agent(queue: Mapping[str, Any]) -> str:
    of = f" of agent {queue['agent']}" if queue["agent"] else " without an agent"
    return _waiting(queue["queued"], of, queue["oldestSeconds"])


def _for(count: int, longest: float) -> str:
    return f"for {'' if count == 1 or longest < 1 else 'up to '}{_duration(longest)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _duration(seconds: float) -> str:
    """Return a duration in words: in its greatest unit, and in the next one where that is not 0."""
    rest = int(seconds)
    if not rest:
        return "less than a second"
    first = next(index for index, (_, size) in enumerate(_UNITS) if rest >= size)
    words: list[str] = []
    for name, size in _UNITS[first : first + 2]:
        number, rest = divmod(rest, size)
        words += [_count(number, name)] if number else []
    return " ".join(words)
