"""The files of the repository, for its rules."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE_ROOTS: Final = ("protos", "services", "gateway")
_MORE: Final = "pytest.mark.more"
_NOT_OURS: Final = frozenset(
    {
        ".git",
        ".venv",
        ".venv-compat",
        ".venv-release",
        ".taskplane",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".import_linter_cache",
        "__pycache__",
        "node_modules",
        "dist",
        "build",
    }
)


def files(*under: str, suffix: str = "") -> Iterator[Path]:
    """Every file below the given folders (default: the whole repository) that was written or generated."""
    for start in under or (".",):
        for path in sorted((ROOT / start).rglob(f"*{suffix}")):
            if path.is_file() and _NOT_OURS.isdisjoint(path.relative_to(ROOT).parts):
                yield path


def generated(path: Path) -> bool:
    """Made by `make protos`."""
    return "_pb2" in path.name


def written(*under: str) -> Iterator[Path]:
    """Python files that were written by hand."""
    return (path for path in files(*under, suffix=".py") if not generated(path))


def name(path: Path) -> str:
    """The path in the form of messages and documents."""
    return path.relative_to(ROOT).as_posix()


def rooms(root: str) -> set[str]:
    """The packages directly below `<root>/taskplane`."""
    return {path.name for path in (ROOT / root / "taskplane").iterdir() if path.is_dir() and path.name != "__pycache__"}


class Test(NamedTuple):
    """A test: its file, its name, its docstring, and the command of make that runs it."""

    path: Path
    name: str
    docstring: str
    command: str


@cache
def tests() -> Sequence[Test]:
    """Every test. A test with only some cases marked `more` belongs to `make test`."""
    return tuple(_tests())


def _tests() -> Iterator[Test]:
    for path in written("tests"):
        if not path.name.startswith("test_"):
            continue
        module = ast.parse(path.read_text())
        all_more = any(isinstance(node, ast.Assign) and _marks_more(node) for node in module.body)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                more = all_more or any(ast.unparse(each) == _MORE for each in node.decorator_list)
                yield Test(path, node.name, ast.get_docstring(node) or "", "test-more" if more else "test")


def _marks_more(node: ast.Assign) -> bool:
    """Whether a statement marks all tests of its module."""
    marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return ast.unparse(node.targets[0]) == "pytestmark" and _MORE in map(ast.unparse, marks)
