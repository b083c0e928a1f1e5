"""Settings come from the environment, whole or not at all."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from taskplane.runtime.errors import Invalid
from taskplane.runtime.settings import check_unknown, load, variables

PREFIX = "TASKPLANE_TASKS_"


@dataclass(frozen=True)
class Example:
    url: str
    lease_ttl: float = 15.0
    slots: int = 4
    strict: bool = False
    folder: Path = Path("data")
    agents: tuple[str, ...] = ()
    durability: Literal["full", "relaxed"] = "full"
    secret: str | None = field(default=None, repr=False)


def test_defaults_are_the_dataclasses_and_variables_win_over_them() -> None:
    assert load(Example, PREFIX, {f"{PREFIX}URL": "sqlite:///a"}) == Example("sqlite:///a")
    environ = {
        f"{PREFIX}URL": "sqlite:///b",
        f"{PREFIX}LEASE_TTL": "2.5",
        f"{PREFIX}SLOTS": "8",
        f"{PREFIX}STRICT": "Yes",
        f"{PREFIX}FOLDER": "/var/plane",
        f"{PREFIX}AGENTS": "one, two,",
        f"{PREFIX}DURABILITY": "Relaxed",
        f"{PREFIX}SECRET": "s",
    }
    assert load(Example, PREFIX, environ) == Example(
        "sqlite:///b", 2.5, 8, True, Path("/var/plane"), ("one", "two"), "relaxed", "s"
    )


def test_an_override_wins_unless_it_is_none() -> None:
    environ = {f"{PREFIX}URL": "sqlite:///a", f"{PREFIX}SLOTS": "8"}
    assert load(Example, PREFIX, environ, slots=2, url=None) == Example("sqlite:///a", slots=2)
    with pytest.raises(TypeError, match="no field slot"):
        load(Example, PREFIX, environ, slot=2)


def test_an_empty_optional_is_none() -> None:
    assert load(Example, PREFIX, {f"{PREFIX}URL": "x", f"{PREFIX}SECRET": ""}).secret is None


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("LEASE_TTL", "15 s", "must be a number"),
        ("SLOTS", "1.5", "must be a whole number"),
        ("STRICT", "maybe", "must be true or false"),
        ("DURABILITY", "none", "must be one of full, relaxed"),
    ],
)
def test_the_error_for_an_unreadable_value_names_the_expected_type(name: str, value: str, what: str) -> None:
    with pytest.raises(Invalid, match=f"{PREFIX}{name} {what}"):
        load(Example, PREFIX, {f"{PREFIX}URL": "x", f"{PREFIX}{name}": value})


def test_every_wrong_variable_is_named_at_once() -> None:
    with pytest.raises(Invalid) as failed:
        load(Example, PREFIX, {f"{PREFIX}SLOTS": "x"})
    assert set(failed.value.fields) == {f"{PREFIX}SLOTS", f"{PREFIX}URL"}


def known(**environ: str) -> dict[str, Any]:
    return {"environ": environ, "known": [(Example, PREFIX)], "also": ["TASKPLANE_URL"]}


def test_an_unknown_variable_is_an_error_with_a_suggestion() -> None:
    """W15: of every process."""
    with pytest.raises(Invalid, match=r"TASKPLANE_TASKS_LEASE_TLL \(did you mean TASKPLANE_TASKS_LEASE_TTL\?\)"):
        check_unknown(**known(TASKPLANE_TASKS_LEASE_TLL="3"))
    with pytest.raises(Invalid, match=r"TASKPLANE_XQZ \(no setting has this name\)"):
        check_unknown(**known(TASKPLANE_XQZ="3"))


def test_known_variables_and_variables_of_other_programs_are_accepted() -> None:
    names = dict.fromkeys(variables(Example, PREFIX), "x")
    check_unknown(**known(**names, TASKPLANE_URL="x", TASKPLANE_FAILPOINTS="", PATH="/bin", TASKPLANED="x"))
