"""Decision of where an agent runs: in the event loop of the process, in a thread of it, or in a process of its own.

Beside the event loop may run what blocks: a `run` that is a plain generator always does, any other if the policy or the
operator says so.
"""

from collections.abc import AsyncIterator, Callable, Iterator

from taskplane.executor import agent as port
from taskplane.executor.hosted import Hosted
from taskplane.executor.runs.processes.pool import AgentProcesses
from taskplane.executor.runs.threads import ThreadedRun


def changes_of(
    hosted: Hosted, turn: port.Turn, policy: port.Policy, processes: AgentProcesses, until: Callable[[], float]
) -> AsyncIterator[port.Change]:
    """Begin a run of an agent where it is to run. Raises what the agent raises.

    `until` tells the monotonic time up to which the lease of the run is certain.
    """
    isolation = hosted.isolation or policy.isolation
    if isolation == "process":
        return processes.run(hosted, turn, until)
    if hosted.is_synchronous or isolation == "thread":
        return ThreadedRun(hosted.name, turn, hosted.agent.run)
    changes = hosted.agent.run(turn)
    if isinstance(changes, Iterator):
        return ThreadedRun(hosted.name, turn, lambda _: changes)
    return changes
