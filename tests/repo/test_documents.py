"""The documents say what is true."""

import re
from importlib import import_module

from tests.repo.documents import PROMISES, SETTINGS, held, promises, settings
from tests.repo.tree import ROOT
from tests.repo.words import WORDS


def test_the_list_of_promises_names_exactly_the_tests_that_hold_them() -> None:
    assert PROMISES.read_text() == promises(), "run: make docs"


def test_every_promise_that_a_test_names_has_words() -> None:
    assert {number: where for number, where in held().items() if number not in WORDS} == {}


def test_the_list_of_settings_is_the_code() -> None:
    assert SETTINGS.read_text() == settings(), "run: make docs"


def test_routes_of_the_gateway_are_all_in_the_list_of_routes() -> None:
    listed = (ROOT / "docs" / "http.md").read_text()
    routes = import_module("taskplane.gateway.routes").ROUTES
    missing = {f"{route.method} {route.path}" for route in routes if f"`{route.method} {route.path}`" not in listed}
    assert missing == set()


def test_the_list_of_routes_names_none_that_is_not_there() -> None:
    listed = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`]*)`", (ROOT / "docs" / "http.md").read_text())
    routes = {f"{route.method} {route.path}" for route in import_module("taskplane.gateway.routes").ROUTES}
    assert set(listed) - routes == set()
