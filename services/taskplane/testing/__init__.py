"""Tests of agents: run a turn without a server, and check its result.

    from taskplane.testing import run_turn_sync

    def test_it_greets() -> None:
        result = run_turn_sync(Greeter, "Ada")
        assert result.state == "completed"
        assert result.text == "Hello Ada"

`run_turn` is the same for asynchronous tests. `turn_of` goes through a turn step by step: up to a change, a cancel, a
question and its answer. Executor and stores are the real ones; the databases are deleted afterwards.
"""

from taskplane.testing.result import MadeArtifact, TurnResult
from taskplane.testing.turn import TurnRun, run_turn, run_turn_sync, turn_of

__all__ = ["MadeArtifact", "TurnResult", "TurnRun", "run_turn", "run_turn_sync", "turn_of"]
