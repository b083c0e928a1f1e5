"""Generated code equals the output for the `.proto` files, and the dependencies satisfy the generated code."""

import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

from tests.repo.tree import ROOT, files, name


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def floor(package: str) -> tuple[int, ...]:
    """The least version of a package in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [re.fullmatch(rf"{package}>=([\d.]+)", line) for line in project["dependencies"]]
    (match,) = [match for match in found if match]
    return version(match.group(1))


def demanded(suffix: str, pattern: str) -> set[tuple[int, ...]]:
    """The versions named by the generated files with this suffix."""
    wanted = re.compile(pattern)
    found = {wanted.search(path.read_text()) for path in files("protos", suffix=suffix)}
    assert None not in found
    return {version(".".join(re.findall(r"\d+", match.group(1)))) for match in found if match}


def test_the_floor_of_protobuf_satisfies_the_generated_code() -> None:
    runtime = r"ValidateProtobufRuntimeVersion\(\s*_?[\w.]+,\s*((?:\d+,\s*){2}\d+)"
    assert floor("protobuf") >= max(demanded("_pb2.py", runtime))


def test_the_floor_of_grpcio_satisfies_the_generated_code() -> None:
    assert floor("grpcio") >= max(demanded("_pb2_grpc.py", r"GRPC_GENERATED_VERSION = '([\d.]+)'"))


def test_the_generated_code_equals_the_output_for_the_proto_files(tmp_path: Path) -> None:
    sources = [str(path.relative_to(ROOT / "protos")) for path in files("protos", suffix=".proto")]
    assert sources
    google = str(resources.files("grpc_tools") / "_proto")
    options = [f"--{kind}_out={options}{tmp_path}" for kind, options in OUTPUTS.items()]
    plugins = str(Path(sys.executable).parent)
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}", f"-I{google}", *options, *sources],
        check=True,
        env={"PATH": f"{plugins}:/usr/bin:/bin"},
    )
    made = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    committed = {
        str(path.relative_to(ROOT / "protos")): path.read_bytes() for path in files("protos") if "_pb2" in path.name
    }
    assert sorted(committed) == sorted(made)
    assert [path for path, content in made.items() if committed[path] != content] == []


OUTPUTS = {"python": "", "grpc_python": "", "mypy": "quiet:", "mypy_grpc": "quiet,only_async:"}


def test_the_path_of_a_proto_file_its_package_and_its_import_are_equal() -> None:
    for path in files("protos", suffix=".proto"):
        package = ".".join(path.relative_to(ROOT / "protos").parts[:-1])
        assert f"\npackage {package};\n" in path.read_text(), name(path)
