"""The pages about agents, followed to the letter: each command is run, each file written, each answer seen."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.repo.reader import BLOCKS, Reader
from tests.repo.scripts import model_of
from tests.repo.tree import ROOT

FOLLOWED: Final = (
    "first-agent",
    "functions",
    "langgraph",
    "a2a-sdk",
    "remote-agents",
    "workers",
    "llm",
    "pydantic-ai",
    "adk",
)
# The blocks that another test runs, by the page and the first line.
ELSEWHERE: Final = {
    ("workers", "cd docs/examples/node-worker"): "tests/worker/test_node_worker.py",
    ("workers", "pip install ./protos"): "tests/api/test_client_package.py",
}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_a_page_says_happens(name: str, tmp_path: Path) -> None:
    """P1, P14, I1: from an empty folder on; first-agent goes through init, dev, edit, reload, chat, a broken edit, and a
    fault that a test finds and the terminal shows."""
    with ExitStack() as stack:
        reader = Reader(page(name), tmp_path, stack, stack.enter_context(model_of(name)))
        reader.follow(page(name), but={line for on, line in ELSEWHERE if on == name})
