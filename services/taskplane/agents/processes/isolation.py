"""Choice of the place where an agent runs: the event loop of the process, a thread, or a process of its own.

A `run` that is a plain generator never runs in the event loop of the process. For other agents the policy or the
operator decides.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator

from taskplane.agents import agent as port
from taskplane.agents.hosted import Hosted
from taskplane.agents.processes.pool import AgentProcesses
from taskplane.agents.threads import ThreadedRun


def changes_of(
    hosted: Hosted,
    turn: port.Turn,
    policy: port.Policy,
    processes: AgentProcesses,
    until: Callable[[], float],
    method: str,
) -> AsyncIterator[port.Change]:
    """Call a method of an agent that yields changes, in the agent's isolation. Raises the exceptions of the agent.

    `until` returns the end of the certain time of the lease (monotonic).
    """
    isolation = hosted.isolation or policy.isolation
    if isolation == "process":
        return processes.run(hosted, turn, until, method)
    begin = getattr(hosted.agent, method)
    if isolation == "thread" or inspect.isgeneratorfunction(begin):
        return ThreadedRun(hosted.name, turn, begin)
    changes: AsyncIterator[port.Change] | Iterator[port.Change] = begin(turn)
    if isinstance(changes, Iterator):
        return ThreadedRun(hosted.name, turn, lambda _: changes)
    return changes
