"""Documents that are generated from the code, or checked against it."""

import re
from importlib import import_module
from typing import Any, Final

from tests.repo import conformance
from tests.repo.documents import METRICS, PROMISES, SERVICES, SETTINGS, fields_of, held, metrics, promises, settings
from tests.repo.items import ASKED, UNTESTED
from tests.repo.tree import ROOT
from tests.repo.words import WORDS

_AGENT: Final = "/agents/{agent}"
_KAGENT: Final = "/api/a2a/{namespace}/{agent}"
_BASES: Final = (_AGENT, _KAGENT)


def test_the_list_of_promises_names_exactly_the_tests_that_hold_them() -> None:
    assert PROMISES.read_text() == promises(), "run: make docs"


def test_every_promise_named_by_a_test_has_a_sentence() -> None:
    assert {number: where for number, where in held().items() if number not in WORDS} == {}


def test_the_page_on_conformance_is_generated_from_the_tests_and_their_calls() -> None:
    assert conformance.PAGE.read_text() == conformance.conformance(), "run: make docs"


def test_every_item_of_a2a_has_either_a_test_that_cites_it_or_a_reason_for_none() -> None:
    cited = set(conformance.held())
    assert cited & set(UNTESTED) == set()
    assert cited | set(UNTESTED) == set(ASKED)


def test_the_list_of_settings_is_generated_from_the_code() -> None:
    assert SETTINGS.read_text() == settings(), "run: make docs"


def test_the_list_of_metrics_is_generated_from_the_code() -> None:
    assert METRICS.read_text() == metrics(), "run: make docs"


def test_every_setting_has_a_row_with_its_effect_unit_and_extremes() -> None:
    """The meaning of a number begins with its effect and has its unit, and the meaning of 0 or its lower bound."""
    unclear: list[str] = []
    for service, path in SERVICES.items():
        for field, default, meaning in fields_of(ROOT / path):
            clear = meaning[:1].isupper() and meaning.endswith(".") and not re.search(r"(?i)\b(?:see|above)\b", meaning)
            if re.fullmatch(r"`\d+(?:\.\d+)?`", default):
                unit = re.search(r"\bin (?:milli)?seconds\b|\bbytes\b|[Nn]umber of|\bPort\b", meaning)
                clear = clear and bool(unit) and bool(re.search(r"\b0\b|\bMust be\b|\bAt least\b", meaning))
            if not clear:
                unclear.append(f"{service}.{field}: {meaning!r}")
    assert unclear == [], "write a comment above each of these fields"


def test_routes_of_the_gateway_are_all_in_the_list_of_routes() -> None:
    listed = (ROOT / "docs" / "http.md").read_text()
    routes = import_module("taskplane.gateway.routes").ROUTES
    names = {
        f"{route.method} {route.path}"
        for route in routes
        if not (route.path.startswith(_KAGENT) and _rest(route)) and "{tenant}" not in route.path
    }
    assert {name for name in names if f"`{name}`" not in listed} == set()


def test_rest_below_the_path_of_kagent_has_the_routes_of_one_agent() -> None:
    routes = [route for route in import_module("taskplane.gateway.routes").ROUTES if _rest(route)]
    below = {base: {one.path.removeprefix(base) for one in routes if one.path.startswith(base)} for base in _BASES}
    assert below[_KAGENT] == below[_AGENT] != set()


def test_the_list_of_routes_has_only_existing_routes() -> None:
    listed = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`", (ROOT / "docs" / "http.md").read_text())
    routes = {f"{route.method} {route.path}" for route in import_module("taskplane.gateway.routes").ROUTES}
    assert set(listed) - routes == set()


def _rest(route: Any) -> str:
    """Return the version of the REST binding of a route; empty for any other route."""
    found: str = getattr(route, "rest", "")
    return found
