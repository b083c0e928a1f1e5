"""Every command of the page on curl is run, in its order, against a real plane: one scenario set over each form."""

import json
import re
from collections.abc import Generator, Mapping
from typing import Any, Final

import httpx
import pytest
from tests.cli.command import PATIENCE, dev
from tests.gateway.bindings import HTTP_BINDINGS, HttpBinding
from tests.gateway.failures import Failure
from tests.repo import one_shell
from tests.repo.one_shell import SERVER
from tests.repo.tree import ROOT

Json = dict[str, Any]
PAGE: Final = (ROOT / "docs" / "curl.md").read_text()
TITLES: Final = {
    "JSON-RPC of A2A 1.0": "jsonrpc-1.0",
    "JSON-RPC of A2A 0.3": "jsonrpc-0.3",
    "REST of A2A 1.0": "rest-1.0",
    "REST of A2A 0.3": "rest-0.3",
}
SCENARIOS: Final = ("Send", "Stream", "Cut and resume", "Continue", "List", "Cancel", "Card", "Errors")
BINDINGS: Final[Mapping[str, HttpBinding]] = {binding.name: binding for binding in HTTP_BINDINGS}
Answers = Mapping[tuple[str, str], list[str]]

pytestmark = pytest.mark.timeout(4 * PATIENCE)
each_form: Final = pytest.mark.parametrize("form", BINDINGS)


def commands() -> list[tuple[str, str, str]]:
    """The blocks of the page, each with its form and its scenario."""
    found: list[tuple[str, str, str]] = []
    form = scenario = ""
    for title, scene, block in re.findall(r"^## (.*)\n|^### (.*)\n|^```sh\n((?:.*\n)*?)^```$", PAGE, re.MULTILINE):
        form, scenario = (TITLES[title], "") if title else (form, scene or scenario)
        if block:
            found.append((form, scenario, block))
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Answers]:
    """The outputs of the blocks of each scenario over each form, and the whole task of each cut stream. All blocks
    share one shell, as they do for a reader."""
    place = tmp_path_factory.mktemp("curl")
    told = commands()
    with dev(cwd=place) as plane:
        outputs = one_shell.run([block for _, _, block in told], plane.url, place, timeout=3 * PATIENCE)
        found: dict[tuple[str, str], list[str]] = {}
        for (form, scenario, _), output in zip(told, outputs, strict=True):
            found.setdefault((form, scenario), []).append(output)
        for form in BINDINGS:
            (said,) = found[form, "Cut and resume"]
            (task_id,) = set(re.findall('"taskId":"([^"]*)"', said))
            found[form, "Whole"] = [httpx.get(f"{plane.url}/tasks/{task_id}").text]
        yield found


def result(form: str, operation: str, said: str) -> Json | Failure:
    """The result or the error of an operation, in the form of 1.0."""
    body = json.loads(said)
    return BINDINGS[form].read(operation, {**body, "id": "r"} if "jsonrpc" in body else body)


def events(form: str, said: str) -> list[Json]:
    """The events of a stream, in the form of 1.0."""
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data: ")]
    found = [result(form, "SubscribeToTask", line) for line in lines]
    assert not [each for each in found if isinstance(each, Failure)], said
    return [each for each in found if not isinstance(each, Failure)]


def states(found: list[Json]) -> list[str]:
    return [each["statusUpdate"]["status"]["state"] for each in found if "statusUpdate" in each]


def text_of(found: list[Json]) -> str:
    chunks = [each["artifactUpdate"]["artifact"]["parts"] for each in found if "artifactUpdate" in each]
    return "".join(part["text"] for parts in chunks for part in parts)


def test_the_page_has_each_scenario_over_each_form_and_names_the_server_once() -> None:
    found = [(form, scenario) for form, scenario, block in commands() if block != SERVER]
    assert list(dict.fromkeys(found)) == [(form, scenario) for form in TITLES_IN_ORDER for scenario in SCENARIOS]
    assert PAGE.count("http://") == PAGE.count(SERVER) == 1
    assert all("curl " in block for _, _, block in commands() if block != SERVER)


TITLES_IN_ORDER: Final = [TITLES[title] for title in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)]


@each_form
def test_a_send_gets_its_finished_task(answers: Answers, form: str) -> None:
    (said,) = answers[form, "Send"]
    found = result(form, "SendMessage", said)
    assert not isinstance(found, Failure)
    assert found["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert found["task"]["status"]["message"]["parts"] == [{"text": "hello"}]


@each_form
def test_a_stream_has_the_task_its_pieces_and_its_end(answers: Answers, form: str) -> None:
    (said,) = answers[form, "Stream"]
    found = events(form, said)
    assert list(found[0]) == ["task"]
    assert sum("artifactUpdate" in each for each in found) == 3
    assert states(found)[-1] == "TASK_STATE_COMPLETED"


@each_form
def test_a_cut_stream_continues_without_loss_or_repetition(answers: Answers, form: str) -> None:
    (said,) = answers[form, "Cut and resume"]
    rest = events(form, said)
    assert "task" not in rest[0]
    assert states(rest)[-1] == "TASK_STATE_COMPLETED"
    task = json.loads(answers[form, "Whole"][0])
    whole, missed = "".join(part["text"] for part in task["artifacts"][0]["parts"]), text_of(rest)
    assert missed
    assert whole.endswith(missed)
    assert len(whole) > len(missed)


@each_form
def test_an_answer_continues_the_task_that_asked(answers: Answers, form: str) -> None:
    (said,) = answers[form, "Continue"]
    found = result(form, "SendMessage", said)
    assert not isinstance(found, Failure)
    assert found["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [message["role"] for message in found["task"]["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]


@each_form
def test_tasks_are_listed_in_1_0_and_read_one_by_one_in_0_3(answers: Answers, form: str) -> None:
    said = answers[form, "List"]
    if form.endswith("1.0"):
        listed = result(form, "ListTasks", said[0])
        assert not isinstance(listed, Failure)
        assert (len(listed["tasks"]), listed["pageSize"]) == (2, 2)
        return
    refused = json.loads(said[0])
    assert (refused.get("code") or refused["error"]["code"]) == (-32004 if form == "rest-0.3" else -32601)
    task = result(form, "GetTask", said[1])
    assert not isinstance(task, Failure)
    assert (task["status"]["state"], len(task["history"])) == ("TASK_STATE_COMPLETED", 1)


@each_form
def test_a_task_is_canceled(answers: Answers, form: str) -> None:
    (said,) = answers[form, "Cancel"]
    found = result(form, "CancelTask", said)
    assert not isinstance(found, Failure)
    assert found["status"]["state"] == "TASK_STATE_CANCELED"


@each_form
def test_the_card_is_that_of_the_version(answers: Answers, form: str) -> None:
    card = json.loads(answers[form, "Card"][0])
    assert card["name"] == "demo"
    versions = {each["protocolVersion"] for each in card.get("supportedInterfaces", [])}
    assert "1.0" in versions if form.endswith("1.0") else card["protocolVersion"] == "0.3.0"


@each_form
def test_errors_have_their_codes_and_wrong_fields(answers: Answers, form: str) -> None:
    said = answers[form, "Errors"]
    missing, wrong = result(form, "GetTask", said[0]), result(form, "SendMessage", said[1])
    assert isinstance(missing, Failure) and isinstance(wrong, Failure)
    assert (missing.code, missing.reason) == (-32001, "TASK_NOT_FOUND")
    assert wrong.code == -32602
    assert {"message.messageId", "message.parts"} <= set(wrong.fields)
