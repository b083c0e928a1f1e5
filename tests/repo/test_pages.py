"""The pages about agents, followed to the letter: each command is run, each file written, each answer seen."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.repo.reader import BLOCKS, Reader
from tests.repo.scripts import model_of
from tests.repo.tree import ROOT, SOURCE_ROOTS, written

FOLLOWED: Final = (
    "first-agent",
    "agents",
    "running-agents",
    "developing-agents",
    "adapters",
    "functions",
    "langgraph",
    "a2a-sdk",
    "remote-agents",
    "workers",
    "llm",
    "pydantic-ai",
    "adk",
)
# The blocks of a document that another test runs or checks, by their beginning.
ELSEWHERE: Final = {
    "workers": {
        "cd docs/examples/node-worker\n": "tests/worker/test_worker.py",
        "pip install ./protos\n": "tests/api/test_client_package.py",
    },
    "operations": {
        "cp deploy/example.env deploy/.env": "tests/repo/test_deploy.py",
        "[[keys]]\n": "tests/gateway/auth/test_key_file.py",
        "taskplane key create ann ": "tests/cli/test_key.py",
        "pip install opentelemetry-distro": "tests/system/test_traces.py",
        "taskplane ops ": "tests/cli/test_ops.py",
    },
    "calling-from-python": {
        "pip install ./protos\n": "tests/api/test_client_package.py",
        '"""Sends a message and prints': "tests/system/test_calling.py",
        "$ python docs/examples/calling.py ": "tests/system/test_calling.py",
    },
    "client": {
        "pip install ./protos\n": "tests/api/test_client_package.py",
        '"""Sends a message and prints each': "tests/client/test_example.py",
        "$ python docs/examples/ask.py ": "tests/client/test_example.py",
        "async with aclosing(": "tests/client/test_example.py",
        "from a2a.client import ": "tests/client/test_example.py",
    },
    "curl": {"export TASKPLANE_URL=": "tests/repo/test_curl.py", "curl -s": "tests/repo/test_curl.py"},
    "grpc": {"import asyncio\n": "tests/gateway/test_grpc_clients.py"},
    "security": {
        "printf 'ann:": "tests/gateway/auth/test_sign_in_proxy.py",
        "location / {": "tests/gateway/auth/test_sign_in_proxy.py",
    },
    "releasing": {
        "make release\n": "tests/release/test_builds.py",
        "printf '\\n[[release]]": "tests/repo/test_releases.py",
    },
    "troubleshooting": {"taskplane doctor\n": "tests/cli/test_doctor.py"},
    "page": {"location /plane/ ": "tests/page/test_proxy.py"},
}
# The drawings of a document: blocks without a language.
DRAWINGS: Final = {"architecture": 2, "http": 2, "workers": 1}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


@pytest.mark.more
@pytest.mark.parametrize("name", FOLLOWED)
def test_the_commands_and_answers_of_a_page_work_as_printed(name: str, tmp_path: Path) -> None:
    """P1, P14, I1: from an empty folder on. The page first-agent has init, dev, edit, reload, chat, a broken edit, and
    a fault that a test finds and the terminal shows."""
    with ExitStack() as stack:
        reader = Reader(page(name), tmp_path, stack, stack.enter_context(model_of(name)))
        reader.follow(page(name), but=tuple(ELSEWHERE.get(name, ())))


def test_every_block_of_the_documents_is_run_or_checked_by_a_test() -> None:
    """P14: blocks of the README have their own tests."""
    drawings = dict[str, int]()
    for path in (ROOT / "docs").glob("*.md"):
        claimed = ELSEWHERE.get(path.stem, {})
        blocks = list(BLOCKS.finditer(path.read_text()))
        contents = [block["content"] for block in blocks if block["language"]]
        if unlabelled := len(blocks) - len(contents):
            drawings[path.stem] = unlabelled
        if path.stem not in FOLLOWED:
            assert [each for each in contents if not each.startswith(tuple(claimed))] == [], path.name
        assert [it for it in claimed if not any(each.startswith(it) for each in contents)] == [], path.name
        assert [test for test in claimed.values() if not (ROOT / test).exists()] == []
    assert drawings == DRAWINGS


def test_the_index_names_every_page_once() -> None:
    """The README leads to the index, and the index to each page."""
    listed = re.findall(r"\]\(([\w-]+\.md)\)", page("README"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
    assert "](docs/README.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["troubleshooting", "upgrading", "security"])
def test_every_code_and_setting_on_a_page_for_operators_exists(name: str) -> None:
    """A reader searches for a code as it is printed."""
    sources = "".join(path.read_text() for path in written(*SOURCE_ROOTS))
    # A worker has the settings of an executor.
    named = {
        each.replace("TASKPLANE_WORKER_", "TASKPLANE_EXECUTOR_")
        for each in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=[^`]*)?`", page(name))
    }
    variables = {each for each in named if each.startswith("TASKPLANE_")}
    assert {each for each in variables if f"`{each}`" not in page("settings")} == set()
    assert {each for each in named - variables if f'"{each}"' not in sources} == set()
