"""The scenarios with every adapter; `scenarios` says how one joins."""

from importlib import import_module
from pathlib import Path

import pytest
from tests.executor.adapters.scenarios import SCENARIOS, Adapter

ADAPTERS: list[Adapter] = [
    import_module(f"tests.executor.adapters.{path.stem}").ADAPTER
    for path in sorted(Path(__file__).parent.glob("agent_*.py"))
]


@pytest.mark.parametrize(
    ("adapter", "scenario"),
    [
        pytest.param(adapter, scenario, id=f"{adapter.name}-{scenario}")
        for adapter in ADAPTERS
        for scenario in SCENARIOS
        if scenario not in adapter.cannot
    ],
)
async def test_an_agent_of_a_library_runs_like_one_of_ours(adapter: Adapter, scenario: str, tmp_path: Path) -> None:
    """P1, P3, P5, P8, P9, I1, C9: whatever an agent is written with, its turn is the same."""
    await SCENARIOS[scenario](adapter, tmp_path)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_what_an_adapter_cannot_do_is_a_scenario_and_has_a_reason(adapter: Adapter) -> None:
    assert set(adapter.cannot) <= set(SCENARIOS)
    assert all(reason.strip() for reason in adapter.cannot.values())
