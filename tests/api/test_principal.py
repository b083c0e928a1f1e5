"""The principal of a call: written by `taskplane-client`, read by services."""

from typing import Any

import pytest

from taskplane.api.principal import PRINCIPAL_KEY, principal_header
from taskplane.runtime.errors import Unauthenticated
from taskplane.runtime.identity import PrincipalSigner
from taskplane.runtime.principal import Principal

SECRET = b"a secret of many characters"


@pytest.mark.parametrize("secret", [b"", SECRET])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, Principal("acme", "J\u00fcrgen", "J\u00fcrgen")),
        ({"actor": "importer"}, Principal("acme", "J\u00fcrgen", "importer")),
        ({"service": True}, Principal("acme", "J\u00fcrgen", "J\u00fcrgen", service=True)),
        ({"operator": True}, Principal("acme", "J\u00fcrgen", "J\u00fcrgen", operator=True)),
    ],
)
def test_services_read_the_principal_that_a_client_writes(
    secret: bytes, options: dict[str, Any], wanted: Principal
) -> None:
    key, value = principal_header("acme", "J\u00fcrgen", secret=secret, **options)
    assert key == PRINCIPAL_KEY
    assert value.isascii()
    assert PrincipalSigner(secret).read(value) == wanted
    assert PrincipalSigner(secret).write(wanted) == value


def test_another_secret_is_refused() -> None:
    _, value = principal_header("acme", "ann", secret=b"another one")
    with pytest.raises(Unauthenticated) as caught:
        PrincipalSigner(SECRET).read(value)
    assert caught.value.reason == "BAD_SIGNATURE"


@pytest.mark.parametrize("part", ["tenant", "owner"])
@pytest.mark.parametrize("name", ["", "a" * 256, "a\x00b", "\ud800"])
def test_an_invalid_tenant_or_owner_is_refused_before_the_call(part: str, name: str) -> None:
    """All programs with an empty owner would share one user."""
    names = {"tenant": "acme", "owner": "ann", part: name}
    with pytest.raises(ValueError, match=part):
        principal_header(names["tenant"], names["owner"])


def test_an_invalid_actor_is_refused_before_the_call() -> None:
    with pytest.raises(ValueError, match="actor"):
        principal_header("acme", "ann", actor="a" * 256)
