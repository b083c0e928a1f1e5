"""The rules of the layout that would otherwise be broken silently."""

import ast
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.repo.tree import ROOT, SOURCE_ROOTS, files, name, rooms, written

FORBIDDEN = {"utils", "util", "helpers", "common", "shared", "misc", "base", "core", "manager"}
MOST_LINES = 500
EXPLAINED_FROM = 300


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_no_file_is_longer_than_500_lines() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in written(*SOURCE_ROOTS, "tests", "bench")}
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_a_file_over_300_lines_has_a_docstring() -> None:
    long = [path for path in written(*SOURCE_ROOTS) if len(path.read_text().splitlines()) > EXPLAINED_FROM]
    assert [name(path) for path in long if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_no_module_or_package_has_a_meaningless_name() -> None:
    paths = [path.relative_to(ROOT) for path in written(*SOURCE_ROOTS, "tests", "bench")]
    assert [path for path in paths if FORBIDDEN & {*path.parts[:-1], path.stem}] == []


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_the_namespace_stays_a_namespace(root: str) -> None:
    assert not (ROOT / root / "taskplane" / "__init__.py").exists()


def test_no_room_is_under_two_roots_and_protos_has_only_the_contract_and_the_client() -> None:
    """The folder `protos` is the distribution `taskplane-client`."""
    found = [room for root in SOURCE_ROOTS for room in rooms(root)]
    assert sorted(found) == sorted(set(found))
    assert rooms("protos") == {"api", "client"}


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_every_room_is_a_typed_package(root: str) -> None:
    for room in rooms(root):
        assert (ROOT / root / "taskplane" / room / "__init__.py").exists(), room
        assert (ROOT / root / "taskplane" / room / "py.typed").exists(), room


def test_the_type_checkers_see_every_root_that_has_our_code(project: dict[str, Any]) -> None:
    ours = {*SOURCE_ROOTS, "tests"} | ({"bench"} if any(written("bench")) else set[str]())
    mypy, pyright = project["tool"]["mypy"], project["tool"]["pyright"]
    assert ours <= set(mypy["files"])
    assert "packages" not in mypy
    assert mypy["strict"] is True
    assert mypy["mypy_path"].split(":") == list(SOURCE_ROOTS)
    assert ours <= set(pyright["include"])
    assert pyright["typeCheckingMode"] == "strict"
    assert pyright["extraPaths"] == list(SOURCE_ROOTS)


def test_only_the_settings_module_reads_the_environment(project: dict[str, Any]) -> None:
    lint = project["tool"]["ruff"]["lint"]
    assert "TID251" in lint["select"]
    assert {"os.environ", "os.getenv"} <= set(lint["flake8-tidy-imports"]["banned-api"])
    excused = {path for path, rules in lint["per-file-ignores"].items() if "TID251" in rules}
    assert excused <= {"tests/**", "bench/**", "services/taskplane/runtime/settings.py", "hatch_build.py"}
    pattern = re.compile(r"#\s*noqa.*TID251")
    assert [name(path) for path in written(*SOURCE_ROOTS) if pattern.search(path.read_text())] == []


def test_the_import_contracts_name_every_room_and_are_part_of_the_check(project: dict[str, Any]) -> None:
    portions = {f"taskplane.{room}" for root in SOURCE_ROOTS for room in rooms(root)}
    assert set(project["tool"]["importlinter"]["root_packages"]) == portions
    assert len(project["tool"]["importlinter"]["contracts"]) >= 6
    check = re.search(r"^check:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert check is not None
    assert {"lint", "types", "contracts", "protos-check", "test"} <= set(check.group(1).split("##")[0].split())


def test_the_sources_have_no_marks_of_unfinished_work() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError|pytest\.mark\.skip\b(?!if)")
    found = [name(path) for path in written(*SOURCE_ROOTS) if marks.search(path.read_text())]
    assert found == []


def test_every_public_function_and_class_of_the_sources_has_a_docstring() -> None:
    silent: list[str] = []
    for path in written(*SOURCE_ROOTS):
        if "migrations" in path.parts:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                overload = any(getattr(decorator, "id", "") == "overload" for decorator in node.decorator_list)
                if not node.name.startswith("_") and not overload and not ast.get_docstring(node):
                    silent.append(f"{name(path)}: {node.name}")
    assert silent == []


def _texts() -> list[tuple[str, str]]:
    binary = {".png", ".ico", ".woff2"}
    return [(name(path), path.read_text()) for path in files() if path.suffix not in binary]


def test_the_repository_names_no_paths_documents_or_package_indexes_of_another_place() -> None:
    """The index is that of the machine; hosts are checked by the next test."""
    somewhere = r"(?<![\w.])/(?:work|root|home|Users|tmp/venv)/\w"
    elsewhere = r"\b(?:design|reliability|requirements|style|web-ui|a2a)\.md\b"
    index = r"(?:pypi|pythonhosted|npmjs|artifactory|nexus|devpi)\b"
    pattern = re.compile("|".join((somewhere, elsewhere, index)), re.IGNORECASE)
    here = name(Path(__file__))
    # The action that publishes a release; no request goes there.
    texts = [(path, text.replace("pypa/gh-action-pypi-publish@", "")) for path, text in _texts() if path != here]
    found = [(path, match.group()) for path, text in texts for match in [pattern.search(text)] if match]
    assert found == []


def test_urls_in_the_repository_lead_to_loopback_to_examples_or_to_a_standard() -> None:
    """A host without a dot is a name within a deployment, such as a service of compose.yaml."""
    loopback = {"127.0.0.1", "0.0.0.0", "[::1]"}
    examples = ["example.com", "example.org", "example.net", ".example", ".invalid", ".test"]
    standards = ["a2a-protocol.org", "apache.org", "w3.org", "googleapis.com", "json-schema.org", "openapis.org"]
    # The names of extensions; no request goes there.
    own = ["taskplane.dev"]
    url = re.compile(r"\b(?:https?|postgresql)://(?:[^\s/@\"'`]*@)?(\[[^\]]*\]|[A-Za-z0-9.-]+)")
    here = name(Path(__file__))
    found = {
        (path, host)
        for path, text in _texts()
        # The file names sites for donations to packages, but no registry (tests/repo/test_page_sources.py).
        if not path.endswith("/package-lock.json")
        for host in url.findall(text)
        if path != here and "." in host and host not in loopback
    }
    assert {(path, host) for path, host in found if not host.endswith((*examples, *standards, *own))} == set()


def test_the_script_of_ci_is_executable_and_has_a_shebang() -> None:
    script = ROOT / ".ci" / "run"
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)
