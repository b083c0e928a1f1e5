"""The import contracts name modules that exist, and order every package."""

import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import find_spec
from typing import Any, Final, cast

import grimp
import pytest
from tests.repo.tree import ROOT, SOURCE_ROOTS

CONTRACTS: Final = cast(
    "list[dict[str, Any]]",
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"],
)
# Packages with a contract that lists every module.
COMPLETE: Final = ("taskplane.gateway", "taskplane.cli", "taskplane.runtime", "taskplane.storage")
_SEPARATORS: Final = re.compile(r"[|:()\s]+")


def exists(module: str) -> bool:
    """Return whether a module of ours is in the tree, or one of a library is installed."""
    if not module.startswith("taskplane."):
        return find_spec(module) is not None
    path = module.replace(".", "/")
    places = [ROOT / root / path for root in SOURCE_ROOTS]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)


def names(layer: str) -> list[str]:
    """Return the modules of a layer; those in brackets may be missing in some of the containers."""
    return [name for name in _SEPARATORS.split(layer) if name]


def missing(contract: dict[str, Any]) -> Iterator[str]:
    listed = [*contract.get("modules", ()), *contract.get("source_modules", ()), *contract.get("forbidden_modules", ())]
    for ignored in contract.get("ignore_imports", ()):
        listed += ignored.split(" -> ")
    yield from (module for module in listed if not exists(module))
    containers = contract.get("containers", ())
    for layer in contract.get("layers", ()):
        for name in names(layer):
            places = [f"{container}.{name}" for container in containers] or [name]
            if not any(map(exists, places)):
                yield name


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_an_import_contract_names_modules_that_exist(contract: dict[str, Any]) -> None:
    assert list(missing(contract)) == []


def test_a_missing_module_is_found() -> None:
    """In each position of a contract that can have a module."""
    gone = "taskplane.gateway.gone"
    assert list(missing({"modules": [gone]})) == [gone]
    assert list(missing({"source_modules": ["grpc"], "forbidden_modules": ["gone"]})) == ["gone"]
    assert list(missing({"ignore_imports": [f"taskplane.gateway -> {gone}"]})) == [gone]
    assert list(missing({"containers": ["taskplane.gateway"], "layers": ["web | (gone)", "auth"]})) == ["gone"]
    assert list(missing({"layers": ["taskplane.cli : taskplane.gone"]})) == ["taskplane.gone"]


@pytest.mark.parametrize("package", COMPLETE)
def test_the_contract_of_a_package_is_exhaustive(package: str) -> None:
    """A new module has no place in the contract until a developer adds it."""
    assert [one["exhaustive"] for one in CONTRACTS if package in one.get("containers", ())] == [True]


def test_no_modules_import_one_another_in_a_circle() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # A circle is a CycleError, which names its modules.
    TopologicalSorter(imports).prepare()
