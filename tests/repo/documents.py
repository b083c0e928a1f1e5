"""Generation of documents from the code: `make docs`. Tests check that the documents are up to date."""

import ast
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.repo.cited import IN_NAME, holders, tables
from tests.repo.conformance import ITEMS, PAGE, conformance
from tests.repo.tree import ROOT, Test, files
from tests.repo.words import CHAPTERS, WORDS

from taskplane.runtime.bounds import ranges_of

PROMISES: Final = ROOT / "docs" / "promises.md"
SETTINGS: Final = ROOT / "docs" / "settings.md"
METRICS: Final = ROOT / "docs" / "metrics.md"
_TYPES: Final = frozenset({"Counter", "Gauge", "Histogram"})
_NUMBER: Final = re.compile(r"\b([TMRIPSCVWB][1-9]\d?)\b")
_OF_DATABASES: Final = frozenset({"test_task_store_triggers", "test_session_store_triggers", "test_tables"})

SERVICES: Final[dict[str, str]] = {
    "tasks": "services/taskplane/tasks/settings.py",
    "sessions": "services/taskplane/sessions/settings.py",
    "executor": "services/taskplane/executor/settings.py",
    "gateway": "gateway/taskplane/gateway/settings.py",
    "worker": "services/taskplane/worker/settings.py",
    "llm": "services/taskplane/agents/llm/settings.py",
}

_PROMISES_HEAD: Final = """# Promises and the tests that verify them

Each promise has a number. A test that verifies it has the number in its name or in its docstring, so `git grep -w C8`
finds it. `make docs` generates this list from the tests, and a test fails when it is out of date.

The list has the number of tests of each promise, with those of `make test-more` after a plus, and the two tests that
show most of it; a star marks one of `make test-more`.

The weaknesses of other servers have tests in `tests/peer`, where the server of the official A2A SDK runs beside
taskplane: it fails in the same test, so that the test is known to notice. `make bench` measures rates and delays, which
no test asserts.

`make test` is for every change. `make test-more` runs the tests that take long and rarely fail: they have the marker
`more`. Tests that run on both engines run on SQLite with `make test` and on PostgreSQL with `make test-more`. CI runs
both commands. Environment variables extend the same tests:

- `THOROUGH=1`: both engines also where the engine makes no difference, as where executors and gateways are killed; the
  longest tests; more races; each process in an interpreter of its own, not a copy of one that has imported everything;
- `KILLS=20`: the number of kills; `HISTORIES=500`: the number of generated sessions;
- `FUZZ_REQUESTS=50000`: the number of random requests; `FUZZ_SEED=7`: their seed.
"""

_SETTINGS_HEAD: Final = """# Settings

Every process reads its settings from environment variables; `taskplane dev` reads those of all four processes. An
option of the command line takes precedence over its variable. A variable that begins with `TASKPLANE_` and belongs to
no process is an error, which suggests the closest name. Lists are separated by commas.

Three variables belong to the command itself: `TASKPLANE_URL` is the server of every command with `--url`,
`TASKPLANE_TOKEN` is the API key for it, and `TASKPLANE_FAILPOINTS` is for tests that stop a process at a given point.

A [worker](workers.md) reads the settings of the executor under its own prefix, `TASKPLANE_WORKER_`. Its table has those
that have another default there.

`make docs` generates this list from the code.
"""


_METRICS_HEAD: Final = """# Metrics

Each process answers `GET /metrics` in Prometheus's text format: the gateway on its own port, the others on
`TASKPLANE_<SERVICE>_OPS_LISTEN`, a worker with the metrics of an executor; `taskplane dev` answers with those of all
services. Labels name methods, states and agents, never a task, a session or an owner. Each event is counted in one
process, so counters may be added up. The gauges of tasks, queue and executors are read from the database
every 10 seconds by each process of the task store, so take their maximum, not their sum. `prometheus_client` adds the
figures of the process itself.

`make docs` generates this list from the code.
"""
_IMPORTS_METRICS: Final = "from taskplane.runtime.plain_metrics import"
# The processes that expose the metrics of a part of the code.
_EXPOSED: Final = {"runtime": "every process", "storage": "task store, session history"}


def numbers(test: Test) -> set[str]:
    """Return the promises that a test names. In tests of a database's triggers, I means D, its invariants."""
    found = set(_NUMBER.findall(ITEMS.sub("", test.docstring)))
    in_name = IN_NAME.match(test.name)
    if in_name:
        found.add(in_name.group(1).upper())
    if test.path.stem in _OF_DATABASES:
        return {number.replace("I", "D") for number in found}
    return found


@cache
def held() -> dict[str, list[Test]]:
    """Return the tests of each promise."""
    return holders(numbers)


def promises() -> str:
    """Return the text of docs/promises.md: a line for every promise that has a test."""
    by_number = held()
    having_tests = {number: words for number, words in WORDS.items() if number in by_number}
    return "\n".join([_PROMISES_HEAD, *tables("promise", CHAPTERS, having_tests, by_number)]).rstrip() + "\n"


def settings() -> str:
    """Return the text of docs/settings.md: every setting of every service with its variable, default and meaning."""
    lines = [_SETTINGS_HEAD]
    for service, path in SERVICES.items():
        module = path.partition("/")[2].removesuffix(".py").replace("/", ".")
        found = import_module(module)
        prefix: str = found.PREFIX
        own = [each for each in vars(found).values() if isinstance(each, type) and each.__module__ == module]
        (ranges,) = map(ranges_of, filter(is_dataclass, own))
        lines += [f"## {service}\n", "| variable | default | range | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{prefix}{field.upper()}` | {default} | {ranges.get(field, '')} | {words} |"
            for field, default, words in fields_of(ROOT / path)
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def metrics() -> str:
    """Return the text of docs/metrics.md: every metric with its type, its labels and its meaning."""
    lines = [_METRICS_HEAD]
    for service in (*_EXPOSED, *(service for service in SERVICES if service != "worker")):
        lines += [f"## {_EXPOSED.get(service, service)}\n", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        for path in files("services", "gateway", suffix=".py"):
            rooms = ("executor", "agents") if service == "executor" else (service,)
            within = any(f"/taskplane/{room}/" in path.as_posix() for room in rooms)
            if within and _IMPORTS_METRICS in path.read_text():
                lines += _measured(path)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _measured(path: Path) -> Iterator[str]:
    """Yield a row for each metric that a file declares."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TYPES:
            given = [ast.literal_eval(value) for value in node.args]
            suffix = "_total" if node.func.id == "Counter" else ""
            labels = ", ".join(given[2]) if len(given) > 2 else ""
            yield f"| `{given[0]}{suffix}` | {node.func.id.lower()} | {labels} | {given[1]} |"


def fields_of(path: Path) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of the fields of the one dataclass in a settings file.

    The meaning is the comment above the field; empty without a comment.
    """
    text = path.read_text()
    source = text.splitlines()
    (body,) = [
        node.body for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name.endswith("Settings")
    ]
    found: list[tuple[str, str, str]] = []
    for field in body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            found.append((field.target.id, _default(field.value), _comment(source, field.lineno - 1)))
    return found


def _comment(source: list[str], line: int) -> str:
    words: list[str] = []
    while source[line - 1].lstrip().startswith("#"):
        line -= 1
        words.insert(0, source[line].strip().removeprefix("#").strip())
    return " ".join(words).replace("|", "\\|")


def _default(value: ast.expr | None) -> str:
    if value is None:
        return "must be set"
    if isinstance(value, ast.Call):
        value = next(keyword.value for keyword in value.keywords if keyword.arg == "default")
    known: Any = eval(compile(ast.Expression(value), "<default>", "eval"), {"__builtins__": {}})
    if isinstance(known, tuple):
        known = ",".join(map(str, known))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if known == "":
        return "none"
    return f"`{str(known).lower() if isinstance(known, bool) else known}`"


if __name__ == "__main__":
    PROMISES.write_text(promises())
    SETTINGS.write_text(settings())
    METRICS.write_text(metrics())
    PAGE.write_text(conformance())
