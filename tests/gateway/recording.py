"""A plugin of pytest that records which operations of A2A the passing tests called over which binding, for
docs/conformance.md: `make conformance`."""

import json
from collections import defaultdict
from collections.abc import Generator
from typing import Final, cast

import pytest
from tests.gateway.calls import NOTED
from tests.repo.conformance import CALLS

from taskplane.gateway.a2a.operations import OPERATIONS

_PROPERTY: Final = "a2a calls"
_recorded: Final[defaultdict[str, dict[str, str]]] = defaultdict(dict)


def pytest_runtest_setup() -> None:
    NOTED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the calls of a test that passed to its report, by which they reach the process that writes."""
    report = yield
    if call.when == "call" and report.passed:
        report.user_properties.append((_PROPERTY, sorted(NOTED)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the calls of a test. An operation is answered if one call of it was."""
    for name, calls in report.user_properties:
        if name == _PROPERTY and isinstance(calls, list):
            for operation, binding, outcome in cast("list[tuple[str, str, str]]", calls):
                if _recorded[operation].get(binding) != "answered":
                    _recorded[operation][binding] = outcome


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the record, after a run in which all tests passed."""
    if exitstatus != 0 or hasattr(session.config, "workerinput"):
        return
    found = {name: dict(sorted(_recorded[name].items())) for name in OPERATIONS if name in _recorded}
    CALLS.write_text(json.dumps(found, indent=2) + "\n")
