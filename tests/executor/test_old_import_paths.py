"""Names of before release 0.1: each warns, and has the objects of the new name."""

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("taskplane.executor.agent", "taskplane.agents", "Turn"),
        ("taskplane.executor.agent", "taskplane.agents.agent", "MAX_CHECKPOINT_BYTES"),
        ("taskplane.executor.agent", "taskplane.agents.policy", "ISOLATIONS"),
        ("taskplane.executor.adapters", "taskplane.agents.adapters", "adapt"),
        ("taskplane.executor.adapters.remote", "taskplane.agents.adapters.remote", "RemoteAgent"),
        ("taskplane.executor.agents.llm", "taskplane.agents.llm", "LanguageModel"),
        ("taskplane.executor.testing", "taskplane.testing", "TurnResult"),
    ],
)
def test_an_old_name_warns_and_has_the_same_object(
    old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning is shown without a filter of the program, so it is no DeprecationWarning."""
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(FutureWarning) as warned:
        module = import_module(old)
    assert str(warned[-1].message).startswith(f"{old} is ")
    assert getattr(module, name) is getattr(import_module(new), name)


@pytest.mark.parametrize(
    ("package", "module"), [("taskplane.executor.testing", "result"), ("taskplane.executor.agents.llm", "settings")]
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_old_package_makes_no_second_copy_of_its_modules(package: str, module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(f"{package}.{module}")
