"""The image and the compose file, checked without running them."""

import json
import re
from importlib import import_module
from typing import Any

import pytest
import yaml
from tests.repo.tree import ROOT

from taskplane.cli.settings import ALSO, KNOWN
from taskplane.runtime.settings import check_unknown, load

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ROOMS = ["tasks", "sessions", "executor", "gateway"]
VALUES = {
    "POSTGRES_PASSWORD": "p",
    "INTERNAL_SECRET": "s",
    "PUBLIC_URL": "",
    "PUBLIC_GRPC": "",
    "API_KEYS": "",
    "AGENTS": "a:A",
}
# The port of the readiness of each process.
READY = {"tasks": 9051, "sessions": 9052, "executor": 9053, "gateway": 8080}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its argument."""
    joined = DOCKERFILE.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def environment(room: str) -> dict[str, str]:
    """The variables of a service, with the values of an env file put in."""

    def value(match: re.Match[str]) -> str:
        name, _, default = match.group(1).partition(":")
        return VALUES[name] or default.removeprefix("-")

    return {name: re.sub(r"\$\{([^}]+)\}", value, str(text)) for name, text in SERVICES[room]["environment"].items()}


def test_the_image_runs_as_an_unprivileged_user_and_starts_the_command() -> None:
    last_stage = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"][-1]
    final = dict(instructions()[last_stage:])
    user = final["USER"].split(":")[0]
    assert user.isdecimal()
    assert int(user) >= 1000
    assert json.loads(final["ENTRYPOINT"]) == ["taskplane"]
    assert final["STOPSIGNAL"] == "SIGTERM"


def test_the_image_is_built_from_existing_files_and_pinned_versions() -> None:
    for word, argument in instructions():
        if word == "COPY" and "--from" not in argument:
            assert all((ROOT / source).exists() for source in argument.split()[:-1]), argument
        if word == "FROM":
            assert argument.split()[0] == "${PYTHON_IMAGE}"
    (python, *_) = [argument for word, argument in instructions() if word == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim", python)
    assert "-c deploy/constraints.txt" in DOCKERFILE


def test_every_pinned_version_is_exact_and_every_dependency_is_pinned() -> None:
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert all(re.fullmatch(r"[\w.+!-]+", version) for version in pins.values())
    project = import_module("tomllib").loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for extra in ("postgres", "llm", "a2a-sdk", "adk", "langgraph"):
        wanted += project["optional-dependencies"][extra]
    pinned = {_normal(name) for name in pins}
    names = {_normal(re.split(r"[\[<>=~!; ]", line)[0]) for line in wanted} - {"taskplane"}
    assert names - pinned == set()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("room", ROOMS)
def test_every_service_runs_in_the_one_image_without_rights(room: str) -> None:
    service = SERVICES[room]
    assert service["command"] == ["serve", room]
    assert service["image"] == SERVICES["tasks"]["image"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("room", ROOMS)
def test_the_settings_of_every_service_are_known_and_valid(room: str) -> None:
    given = environment(room)
    check_unknown(given, KNOWN, ALSO)
    (cls, prefix) = next((cls, prefix) for cls, prefix in KNOWN if prefix == f"TASKPLANE_{room.upper()}_")
    loaded = load(cls, prefix, given)
    assert loaded.internal_secret == VALUES["INTERNAL_SECRET"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_service_is_checked_for_readiness_on_its_own_port(room: str) -> None:
    """C14: at the port of its settings. Services that depend on it start when it is ready."""
    asked = " ".join(SERVICES[room]["healthcheck"]["test"])
    assert f"http://127.0.0.1:{READY[room]}/readyz" in asked
    (cls, prefix) = next((cls, prefix) for cls, prefix in KNOWN if prefix == f"TASKPLANE_{room.upper()}_")
    loaded = load(cls, prefix, environment(room))
    assert str(READY[room]) in (getattr(loaded, "ops_listen", "").rpartition(":")[2], str(getattr(loaded, "port", "")))
    for needed in SERVICES[room]["depends_on"].values():
        assert needed == {"condition": "service_healthy"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_limits_and_a_health_check(name: str) -> None:
    """C14: for processors, memory, processes and log files."""
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) > 0 and limits["memory"].endswith("g") and limits["pids"] > 0
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}
    health = service["healthcheck"]
    assert health["test"] and "disable" not in health
    assert {"interval", "timeout", "retries"} <= health.keys()


def test_every_image_can_be_pinned_by_its_digest() -> None:
    """C14: the env file may name the image; the default has a tag other than the moving `latest`."""
    assert SERVICES["postgres"]["image"] == "${POSTGRES_IMAGE:-postgres:17}"
    assert SERVICES["tasks"]["build"]["args"]["PYTHON_IMAGE"] == "${PYTHON_IMAGE:-python:3.13-slim}"


def test_services_find_one_another_by_name_and_port() -> None:
    def port(room: str) -> str:
        return environment(room)[f"TASKPLANE_{room.upper()}_LISTEN"].rpartition(":")[2]

    for room, others in [("executor", ["tasks", "sessions"]), ("gateway", ["tasks", "sessions", "executor"])]:
        for other in others:
            assert environment(room)[f"TASKPLANE_{room.upper()}_{other.upper()}"] == f"{other}:{port(other)}"


def test_the_published_ports_are_those_of_the_gateway_and_of_its_card() -> None:
    """C14: HTTP and gRPC; the image names every port."""
    given = environment("gateway")
    ports = [given["TASKPLANE_GATEWAY_PORT"], given["TASKPLANE_GATEWAY_GRPC_PORT"]]
    assert SERVICES["gateway"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    # Without an address for gRPC the card names none: that of this machine would be wrong beside a public URL.
    assert given["TASKPLANE_GATEWAY_PUBLIC_GRPC"] == ""
    (grpc,) = re.findall(r"^PUBLIC_GRPC=(.+)$", (ROOT / "deploy" / "example.env").read_text(), re.MULTILINE)
    addresses = [given["TASKPLANE_GATEWAY_PUBLIC_URL"], grpc]
    assert [address.rpartition(":")[2] for address in addresses] == ports
    assert set(ports) <= set(dict(instructions())["EXPOSE"].split())


def test_only_the_gateway_is_reachable_from_outside_and_only_with_a_key() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["gateway"]
    keys = environment("gateway")["TASKPLANE_GATEWAY_API_KEYS"]
    assert keys == f"/run/secrets/{SERVICES['gateway']['secrets'][0]}"
    assert "api_keys" in COMPOSE["secrets"]


def test_agents_must_be_named_and_the_example_does_not_have_the_demo_agent() -> None:
    """P9: the demo agent can do too much at the request of a user for a deployment."""
    given = SERVICES["executor"]["environment"]["TASKPLANE_EXECUTOR_AGENTS"]
    assert given.startswith("${AGENTS:?")
    example = (ROOT / "deploy" / "example.env").read_text()
    assert "demo" not in example.partition("\nAGENTS=")[2].partition("\n")[0]


def test_both_stores_are_on_postgresql() -> None:
    for room in ("tasks", "sessions"):
        url = environment(room)[f"TASKPLANE_{room.upper()}_DATABASE_URL"]
        assert url == "postgresql://taskplane:p@postgres/taskplane"


def test_no_secret_has_a_default_and_the_example_names_every_variable() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    used = {name.partition(":")[0] for name in re.findall(r"\$\{([^}]+)\}", text)}
    lines = (ROOT / "deploy" / "example.env").read_text().splitlines()
    assert used == {line.partition("=")[0] for line in lines if not line.startswith("#")}
    assert not re.search(r"\$\{(POSTGRES_PASSWORD|INTERNAL_SECRET):-", text)


def test_the_executor_has_longer_to_stop_than_a_drain_takes() -> None:
    cls, prefix = next((cls, prefix) for cls, prefix in KNOWN if prefix == "TASKPLANE_EXECUTOR_")
    executor = load(cls, prefix, {})
    allowed = float(SERVICES["executor"]["stop_grace_period"].removesuffix("s"))
    assert allowed > executor.drain_timeout + executor.cancel_grace + 5.0
