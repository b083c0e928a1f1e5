"""Every command of the README is run, in its order, against a real plane."""

import json
import re
import subprocess
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import PATIENCE, PROGRAM, dev, taskplane
from tests.repo import one_shell
from tests.repo.one_shell import SERVER
from tests.repo.tree import ROOT

# All commands of the README together take a minute on a busy machine.
pytestmark = pytest.mark.timeout(6 * PATIENCE)
README = (ROOT / "README.md").read_text()
MAKE = {"make run", "make test"}


def blocks(language: str, document: str = README) -> list[str]:
    """The fenced blocks of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)


def starts_a_server(block: str) -> bool:
    return block.startswith(("make ", "taskplane dev"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """The output of each block. The blocks share one shell, as they do for a reader."""
    place = tmp_path_factory.mktemp("readme")
    commands = place / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "taskplane").write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    (commands / "taskplane").chmod(0o755)
    (commands / "activate").write_text('PATH="$PWD/.venv/bin:$PATH"\n')
    with dev(cwd=place, afresh=True) as plane:
        told = [block for block in blocks("sh") if not starts_a_server(block)]
        assert "".join(told).count("http://") == "".join(told).count(SERVER) == 1, "the server is named once"
        yield dict(zip(told, one_shell.run(told, plane.url, place, timeout=5 * PATIENCE), strict=True))


def answer(answers: dict[str, str], about: str) -> str:
    """The output of the one block that mentions `about`."""
    (found,) = [said for block, said in answers.items() if about in block]
    return found


def events(stream: str) -> list[dict[str, Any]]:
    """The data of a stream of server-sent events."""
    return [json.loads(line.removeprefix("data:")) for line in stream.splitlines() if line.startswith("data:")]


def test_the_card_is_served(answers: dict[str, str]) -> None:
    assert json.loads(answer(answers, "agent-card.json"))["name"] == "demo"


def test_a_message_gets_its_finished_task(answers: dict[str, str]) -> None:
    result = json.loads(answer(answers, '"m-1"'))["result"]
    assert result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_p12_the_cut_stream_continues_to_its_end_without_loss_or_repetition(answers: dict[str, str]) -> None:
    rest = events(answer(answers, "Last-Event-ID"))
    assert rest[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = json.loads(answer(answers, '"GetTask"'))["result"]
    whole = "".join(part["text"] for part in task["artifacts"][0]["parts"])
    missed = "".join(
        part["text"]
        for event in rest
        if "artifactUpdate" in event["result"]
        for part in event["result"]["artifactUpdate"]["artifact"]["parts"]
    )
    assert missed
    assert whole.endswith(missed)
    assert len(whole) > len(missed)


def test_c10_a_send_repeated_with_one_key_makes_one_task_which_is_then_canceled(answers: dict[str, str]) -> None:
    canceled = json.loads(answer(answers, '"CancelTask"'))["result"]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    listed = answer(answers, "taskplane task list")
    assert listed.count(canceled["id"]) == 1


def test_the_log_and_the_routes_of_sessions_answer(answers: dict[str, str]) -> None:
    said = answer(answers, "/api/tasks/$TASK/events").splitlines()
    log = [event["generation"] for event in events("\n".join(said)) if "generation" in event]
    assert log == list(range(1, len(log) + 1))
    envelopes: list[dict[str, Any]] = []
    rest = said[-1]
    while rest:
        envelope, end = json.JSONDecoder().raw_decode(rest)
        envelopes.append(envelope)
        rest = rest[end:]
    assert [envelope["error"] for envelope in envelopes] == [False, False, False]


def test_the_commands_do_the_same_as_the_requests(answers: dict[str, str]) -> None:
    said = answer(answers, "taskplane chat -m")
    assert said.startswith("hello\n")
    assert "#1  submitted  slow 8" in said


def test_r8_a_turn_is_rewound_and_restored(answers: dict[str, str]) -> None:
    said, cut, undone = answer(answers, "taskplane session rewind").splitlines()
    assert said == cut == "one thing more"
    assert undone.endswith("slow 8")


def test_the_two_commands_of_make_run_a_plane_and_the_tests() -> None:
    given = {line for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")}
    assert given == MAKE
    for target, runs in [("run", "taskplane dev"), ("test", "-m pytest")]:
        plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert runs in plan.stdout


def test_two_commands_of_make_run_each_test_once_and_ci_runs_both() -> None:
    assert "`make test-more`" in README
    for target, tests in [("test", '-m "not more"'), ("test-more", "-m more"), ("check", '-m "not more"')]:
        words = ["make", "-n", target, "ARGS="]
        plan = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        (line,) = [line for line in plan.stdout.splitlines() if "-m pytest" in line]
        assert line.partition(" --dist worksteal ")[2].strip() == tests
    assert "for target in check test-more; do" in (ROOT / ".ci" / "run").read_text()


def test_a_plane_on_other_ports_is_reached_with_the_command_of_the_readme(tmp_path: Path) -> None:
    said = re.search(
        r'`make run ARGS="([^"]*)"`.*?`export (TASKPLANE_URL)=http://127\.0\.0\.1:(\d+)`', README, re.DOTALL
    )
    assert said is not None
    options, variable, port = said.groups()
    plan = subprocess.run(
        ["make", "-n", "run", f"ARGS={options}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"taskplane dev {options}" in plan.stdout
    assert f"--port {port} --grpc-port " in options
    with dev(cwd=tmp_path) as plane:
        assert taskplane("chat", "-m", "hello", env={variable: plane.url}).stdout == "hello\n"


def test_every_command_of_the_readme_that_starts_a_server_is_tested() -> None:
    started = {line for block in blocks("sh") if starts_a_server(block) for line in block.splitlines()}
    assert started == MAKE | {"taskplane dev --agent greeting:Greeter"}


def test_the_agent_of_the_readme_greets(tmp_path: Path) -> None:
    (source,) = blocks("python")
    (tmp_path / "greeting.py").write_text(source)
    with dev("--agent", "greeting:Greeter", cwd=tmp_path) as plane:
        assert taskplane("chat", "--url", plane.url, "-m", "Ada").stdout == "Good day, Ada.\n"


def test_the_guide_lists_all_demo_commands_and_no_others() -> None:
    (table,) = re.findall(r"## The demo agent\n(.*)", (ROOT / "docs" / "agents.md").read_text(), re.DOTALL)
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)", row)}
    known = set(import_module("taskplane.agents.demo").COMMANDS)
    assert listed == known - {"echo", "block"} | {"message"}


def test_only_the_extras_of_taskplane_are_installed_by_name() -> None:
    """The package is in no package index: pip installs the repository, and then adds the libraries of an extra by
    name."""
    by_name = re.compile(r"pip install[^\n`]*[ ']taskplane(?!\[|-)\b")
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")]
    assert [each.name for each in documents if by_name.search(each.read_text())] == []
    for each in documents:
        extras = set(re.findall(r"^pip install 'taskplane\[([\w-]+)\]'", each.read_text(), re.MULTILINE))
        assert [extra for extra in extras if f"`pip install '.[{extra}]'`" not in each.read_text()] == [], each.name
    assert "`pip install .`" in README and "`pip install '.[postgres]'`" in README


def test_every_file_linked_by_the_documents_exists() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
