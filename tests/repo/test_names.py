"""References of documents to the code, written `path::name`, and the words of the glossary."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repo.tree import ROOT, files, generated, name, written

CODE_MAP = ROOT / "docs" / "code-map.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
CHANGING = ROOT / "docs" / "changing.md"
PLACE = re.compile(r"`([\w/]+\.(?:py|proto|ts))::([\w.]+)`")


def found(path: str) -> Path | None:
    """Return the file with this path below one of the packages `taskplane`, or among the clients."""
    candidates = [ROOT / root / "taskplane" / path for root in ("services", "gateway", "protos")]
    candidates.append(ROOT / "clients" / path)
    return next((candidate for candidate in candidates if candidate.exists()), None)


def names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the functions, classes, methods and variables that a module or class defines."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


def exists(path: str, wanted: str) -> bool:
    """Return whether a module defines this name, or another file has this message, RPC, field, function or class."""
    file = found(path)
    if file is None:
        return False
    if file.suffix != ".py":
        return re.search(rf"\b{re.escape(wanted.rpartition('.')[2])}\b", file.read_text()) is not None
    return wanted in names(ast.parse(file.read_text()).body)


@pytest.mark.parametrize("document", [CODE_MAP, GLOSSARY, CHANGING], ids=name)
def test_every_code_reference_of_a_document_exists(document: Path) -> None:
    places = PLACE.findall(document.read_text())
    assert places
    missing = [f"{path}::{wanted}" for path, wanted in places if not exists(path, wanted)]
    assert missing == [], f"moved or renamed? correct {name(document)}"


def test_the_code_map_answers_thirty_questions() -> None:
    rows = re.findall(r"^\| ([^|]+\?) \| (.+) \|$", CODE_MAP.read_text(), re.MULTILINE)
    assert len(rows) >= 30
    assert [question for question, place in rows if not PLACE.search(place)] == []


def entries() -> list[tuple[str, str]]:
    """Return the words of the glossary, each with its explanation."""
    return re.findall(r"^\*\*(.+?)\*\*: (.+(?:\n.+)*)$", GLOSSARY.read_text(), re.MULTILINE)


def test_the_glossary_is_alphabetical_and_brief() -> None:
    words = [word for word, _ in entries()]
    assert words == sorted(words, key=str.lower)
    sentences = {word: len(re.findall(r"[.:](?= [A-Z]|$)", text.replace("\n", " "))) for word, text in entries()}
    assert {word: count for word, count in sentences.items() if count > 4} == {}


def test_every_word_of_the_glossary_occurs_in_the_code() -> None:
    code = [*written("services", "gateway"), *files("protos", suffix=".proto")]
    text = " ".join(path.read_text() for path in code if not generated(path)).lower().replace("_", " ")
    text = re.sub(r"\s+#?\s*", " ", text)
    assert [word for word, _ in entries() if word.lower().replace("`", "").replace("_", " ") not in text] == []


def recipes() -> list[tuple[str, str]]:
    """Return the titles of the recipes, each with its text."""
    return re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", CHANGING.read_text(), re.MULTILINE)


def test_each_recipe_has_at_most_ten_steps_in_order() -> None:
    steps = {title: [int(step) for step in re.findall(r"^(\d+)\. ", text, re.MULTILINE)] for title, text in recipes()}
    kinds = (
        "an operation",
        "an event kind",
        "a setting",
        "a column",
        "a metric",
        "a way to authenticate",
        "an adapter",
    )
    assert list(steps) == [f"Add {kind}" for kind in kinds]
    assert {title: found for title, found in steps.items() if found != [*range(1, min(len(found), 10) + 1)]} == {}


def test_every_file_that_a_recipe_names_exists() -> None:
    files = re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:md|toml|yaml|txt|env|py|proto))`", CHANGING.read_text())
    files += re.findall(r"`((?:tests|gateway|tasks|executor|agents|docs)(?:/\w+)+)`", CHANGING.read_text())
    roots = [ROOT, *(ROOT / root / "taskplane" for root in ("services", "gateway", "protos"))]
    roots.append(ROOT / "tests" / "agents" / "adapters")
    assert [file for file in files if not any((root / file).exists() for root in roots)] == []
