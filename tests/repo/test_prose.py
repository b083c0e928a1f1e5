"""The rules of docstrings and comments."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.repo.tree import name, written

ROOMS: Final = (
    "gateway",
    "protos/taskplane/client",
    *(
        f"services/taskplane/{room}"
        for room in ("cli", "executor", "runtime", "sessions", "storage", "tasks", "worker")
    ),
)

# Add missing verbs, in the imperative.
_VERBS: Final = """
Accept Acquire Add Advance Allow Announce Answer Append Apply Ask Assign Attribute Begin Block Bring Build Call Cancel
Carry Change Check Claim Clear Close Commit Compare Complete Compute Configure Connect Convert Copy Count Create Cut
Decide Decode Delete Deliver Detach Discard Do Drain Draw Drop Encode End Enter Execute Expire Export Extend Fail Fill
Find Finish Flush Fold Follow Forget Fork Format Forward Generate Give Grow Hand Handle Have Hide Hold Implement
Import Insert Install Interrupt Iterate Join Keep Leave Let Limit List Listen Load Lock Log Look Make Manage Map Mark
Measure Merge Migrate Move Name Note Notify Number Observe Open Pack Parse Pass Pause Perform Persist Poll Prepare
Print Probe Process Prompt Publish Push Put Raise Read Receive Reconcile Record Redirect Redraw Refresh Refuse
Register Reject Release Remember Remove Rename Render Renew Repeat Replace Replay Report Request Reserve Reset Restore
Restrict Resume Retry Return Rewind Ring Roll Run Save Say Schedule Search Select Send Serve Set Settle Show Shut Sign
Skip Sort Split Spread Stage Start Stop Store Stream Submit Subscribe Supersede Sweep Switch Take Talk Tell Test Track
Translate Trim Truncate Undo Unpack Update Upgrade Use Validate Verify Void Wait Wake Watch Work Wrap Write Yield
"""
_IN_PLACE_OF_A_NOUN: Final = re.compile(r"(?:What|Of|Who|Whose|Where)\b")
_ELSEWHERE: Final = re.compile(r"(?i)\b(?:see|as) above\b")


def docstrings(path: Path) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield each module, class and function that has a docstring, with its name and the docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, f"{name(path)}::{getattr(node, 'name', '')}", text


def comments(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the first line of each comment, with its place."""
    before = 0
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != before + 1:
                yield f"{name(path)}:{token.start[0]}", token.string.removeprefix("#").strip()
            before = token.start[0]


@pytest.mark.parametrize("package", ROOMS)
def test_the_docstring_of_a_function_begins_with_a_verb(package: str) -> None:
    wrong = [
        f"{place}: {text.split()[0]}"
        for path in written(package)
        for node, place, text in docstrings(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not (node.name == "__init__" and text.startswith("`"))
        and text.split()[0].rstrip(".,") not in _VERBS.split()
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ROOMS)
def test_no_text_begins_with_a_question_word_or_refers_to_a_text_above(package: str) -> None:
    texts = [
        text
        for path in written(package)
        for text in [*((at, text) for _, at, text in docstrings(path)), *comments(path)]
    ]
    assert [f"{at}: {text}" for at, text in texts if _IN_PLACE_OF_A_NOUN.match(text) or _ELSEWHERE.search(text)] == []
