"""Decision of where an agent runs: in the event loop of the process, in a thread of it, or in a process of its own.

A blocking `run` may run beside the event loop: one that is a plain generator always does, any other if the policy or
the operator says so.
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
    """Call a method of an agent that yields changes, where the agent is to run. Raises the exceptions of the agent.

    `until` tells the monotonic time up to which the lease of the run is certain.
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
