"""Numbers in the settings of all services: each has a range, and values outside of it are refused."""

import dataclasses
import math
import typing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import taskplane

from taskplane.agents.agent import Policy
from taskplane.cli.settings import KNOWN
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.bounds import ranges_of
from taskplane.runtime.errors import Invalid
from taskplane.runtime.settings import load
from taskplane.tasks.settings import TasksSettings

NUMBERS = [
    (cls, prefix, field)
    for cls, prefix in KNOWN
    for field in dataclasses.fields(cls)
    if typing.get_type_hints(cls)[field.name] in (int, float)
]


def _named(value: Any) -> str | None:
    return value.name if isinstance(value, dataclasses.Field) else getattr(value, "__name__", None)


@pytest.mark.parametrize(("cls", "prefix", "field"), NUMBERS, ids=_named)
def test_every_number_has_a_range_that_contains_its_default(
    cls: type[Any], prefix: str, field: "dataclasses.Field[Any]"
) -> None:
    """C14: both ends of the range are valid."""
    allowed = ranges_of(cls)[field.name]
    assert field.default in allowed
    assert math.isfinite(allowed.least) and math.isfinite(allowed.most)


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "-1", "1e300", "-0.001", "least", "most"])
@pytest.mark.parametrize(("cls", "prefix", "field"), NUMBERS, ids=_named)
def test_a_setting_refuses_numbers_outside_its_range(
    cls: type[Any], prefix: str, field: "dataclasses.Field[Any]", word: str
) -> None:
    """C14: NaN, infinite, negative and out of range; zero if the range excludes it. The error is one sentence."""
    allowed, whole = ranges_of(cls)[field.name], typing.get_type_hints(cls)[field.name] is int
    beyond = {"least": allowed.least - (1 if whole else 0.0005), "most": allowed.most + 1}
    text = f"{beyond[word]:.0f}" if word in beyond and whole else str(beyond.get(word, word))
    variable = prefix + field.name.upper()
    with pytest.raises(Invalid) as refused:
        load(cls, prefix, {variable: text})
    assert (refused.value.reason, set(refused.value.fields)) == ("BAD_SETTING", {variable})
    assert refused.value.message.startswith(f"invalid settings: {variable} must be ")
    if not whole:
        with pytest.raises(Invalid, match=field.name):
            cls(**{field.name: float(text)})


@pytest.mark.parametrize(
    ("cls", "values", "rule"),
    [
        (TasksSettings, {"readers": 2.5}, "must be 1 to 1,000, not 2.5"),
        (TasksSettings, {"lease_ttl": "15"}, "must be 0.001 to 86,400 seconds, not 15"),
        (TasksSettings, {"durability": "none"}, "must be one of full, relaxed, not none"),
        (GatewaySettings, {"card_style": None}, "must be one of 1.0, 0.3, hybrid, not None"),
        (TasksSettings, {"lease_ttl": 5.0, "renew_every": 3.0}, "must be at least twice renew_every"),
    ],
)
def test_settings_of_a_program_have_the_rules_of_the_environment(
    cls: type[Any], values: dict[str, Any], rule: str
) -> None:
    with pytest.raises(Invalid) as refused:
        cls(**values)
    assert list(refused.value.fields) == [next(iter(values))]
    assert refused.value.fields[next(iter(values))].startswith(rule)


@pytest.mark.parametrize(
    ("command", "variable", "value"),
    [
        (("dev",), "TASKPLANE_TASKS_LEASE_TTL", "nan"),
        (("serve", "tasks"), "TASKPLANE_TASKS_SWEEP_EVERY", "inf"),
        (("serve", "sessions"), "TASKPLANE_SESSIONS_POLL_EVERY", "0"),
        (("serve", "executor"), "TASKPLANE_EXECUTOR_CAPACITY", "99999999999"),
        (("serve", "gateway"), "TASKPLANE_GATEWAY_PORT", "70000"),
        (("worker", "--agent", "demo"), "TASKPLANE_WORKER_RENEW_EVERY", "-5"),
        (("dev", "--agent", "llm"), "TASKPLANE_LLM_TIMEOUT", "1e300"),
        (("dev",), "TASKPLANE_TASKS_LOG_LEVEL", "verbose"),
    ],
)
def test_the_error_for_a_wrong_setting_names_its_variable(
    tmp_path: Path, command: tuple[str, ...], variable: str, value: str
) -> None:
    done = taskplane(*command, cwd=tmp_path, env={variable: value, "TASKPLANE_LLM_MODEL": "test"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{variable} must be " in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
@pytest.mark.parametrize("port", ["70000", "-1"])
def test_an_invalid_port_is_refused(tmp_path: Path, flag: str, port: str) -> None:
    done = taskplane("dev", flag, port, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for '{flag}'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["run_limit", "queue_limit", "pause_limit"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300])
def test_a_policy_of_an_agent_refuses_limits_that_are_not_times(name: str, value: float) -> None:
    """C14: a limit beyond those of the store would fail each task of the agent."""
    with pytest.raises(ValueError, match=f"{name} must be 0 to 1,000,000,000 seconds"):
        Policy(**{name: value})  # type: ignore[arg-type]
