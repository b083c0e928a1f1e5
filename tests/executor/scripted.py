"""Agents that do what a test says."""

from collections.abc import AsyncIterator, Callable

from taskplane.executor.agent import AgentCard, Change, Policy, Turn

Script = Callable[[Turn], AsyncIterator[Change]]


class Scripted:
    """Runs the script it was given; remembers its turns."""

    def __init__(self, script: Script, *, policy: Policy | None = None) -> None:
        self.card = AgentCard(name="scripted", version="1")
        self.turns: list[Turn] = []
        self._script = script
        self._policy = policy or Policy()

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.turns.append(turn)
        return self._script(turn)

    def policy(self, turn: Turn) -> Policy:
        return self._policy
