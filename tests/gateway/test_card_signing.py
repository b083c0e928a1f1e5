"""Signed cards, verified by the official library, and keys that cannot sign."""

import asyncio
import contextlib
import json
import logging
import sys
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import jwt
import pytest
from a2a.client import A2ACardResolver, ClientFactory
from a2a.compat.v0_3 import types as official_0_3
from a2a.types import GetExtendedAgentCardRequest
from a2a.types import a2a_pb2 as official
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from google.protobuf.json_format import ParseDict
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from tests.gateway.plane import Json, Plane, open_all, open_behind, open_front
from tests.gateway.test_card import BASES, WELL_KNOWN, config_for
from tests.gateway.test_card_schemas import RICH

from taskplane.agents.agent import AgentCard
from taskplane.agents.demo import Demo
from taskplane.gateway.card_signing import KEPT, CardSigner
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.translation_thread import THREAD, TranslationThread
from taskplane.runtime.errors import Invalid
from taskplane.runtime.principal import Principal

_JKU: Final = "https://keys.example/jwks.json"
_ECDSA: Final = ec.generate_private_key(ec.SECP256R1())
_EDDSA: Final = ed25519.Ed25519PrivateKey.generate()
_RSA: Final = rsa.generate_private_key(65537, 2048)


def pem(key: Any, encryption: Any = NoEncryption()) -> bytes:  # noqa: B008 - it has no state
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


def jwk(found: Any, **more: str) -> bytes:
    return json.dumps({**json.loads(found), **more}).encode()


KEYS: Final[Mapping[str, tuple[str, Any, bytes]]] = {
    "es256-pem": ("ES256", _ECDSA.public_key(), pem(_ECDSA)),
    "es256-jwk": ("ES256", _ECDSA.public_key(), jwk(ECAlgorithm.to_jwk(_ECDSA))),
    "eddsa-pem": ("EdDSA", _EDDSA.public_key(), pem(_EDDSA)),
    "eddsa-jwk": ("EdDSA", _EDDSA.public_key(), jwk(OKPAlgorithm.to_jwk(_EDDSA))),
    "rs256-pem": ("RS256", _RSA.public_key(), pem(_RSA)),
    "ps256-jwk": ("PS256", _RSA.public_key(), jwk(RSAAlgorithm.to_jwk(_RSA), alg="PS256")),
}
"""The algorithm, the public key, and the file of each kind of key."""


class Signed(Demo):
    """An agent with a card that has every member, with texts and numbers that have several forms in JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.card = AgentCard()
        self.card.CopyFrom(RICH)
        self.card.capabilities.extensions[0].params.update({"a": 1e21, "b": 0.1, "ä": [], "\u20ac": "\u2028"})

    def extended_card(self, caller: Principal) -> AgentCard:
        card = AgentCard()
        card.CopyFrom(self.card)
        card.description = "More."
        return card


def settings_of(folder: Path, content: bytes, **more: Any) -> Json:
    path = folder / "card.key"
    path.write_bytes(content)
    return {"card_key": str(path), "card_key_id": "k1", "card_key_url": _JKU, **more}


def verifier_of(key: Any, algorithm: str) -> Callable[[official.AgentCard], None]:
    """Return the verifier of the official library, which knows one key by its id and URL."""

    def find(kid: str | None, jku: str | None) -> Any:
        assert (kid, jku) == ("k1", _JKU)
        return key

    return create_signature_verifier(find, [algorithm])


@pytest.mark.parametrize("kind", KEYS)
async def test_the_official_library_verifies_a_signed_card_and_refuses_a_changed_one(tmp_path: Path, kind: str) -> None:
    """a2a G8: at each base, and the extended card over each binding."""
    algorithm, public, content = KEYS[kind]
    verify = verifier_of(public, algorithm)
    settings, card = settings_of(tmp_path, content, card_style="1.0"), official.AgentCard()
    async with open_all(tmp_path, ("demo", Signed()), **settings) as plane:
        for base in BASES:
            resolver = A2ACardResolver(plane.http, plane.gateway.url, agent_card_path=base + WELL_KNOWN)
            card = await resolver.get_agent_card(signature_verifier=verify)
            (signature,) = card.signatures
            header = json.loads(urlsafe_b64decode(signature.protected + "=="))
            assert header == {"alg": algorithm, "typ": "JOSE", "kid": "k1", "jku": _JKU}
            for change in (describe_otherwise, drop_a_skill):
                changed = official.AgentCard()
                changed.CopyFrom(card)
                change(changed)
                with pytest.raises(InvalidSignaturesError):
                    verify(changed)
        with pytest.raises(InvalidSignaturesError):
            verifier_of(other_than(public), algorithm)(card)
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            client = ClientFactory(config_for(plane, binding)).create(card)
            asked = GetExtendedAgentCardRequest()
            more = await client.get_extended_agent_card(asked, signature_verifier=verify)
            assert more.description == "More."
            if binding == "GRPC":
                await client.close()


def describe_otherwise(card: official.AgentCard) -> None:
    card.description = "Mine."


def drop_a_skill(card: official.AgentCard) -> None:
    card.skills.pop()


def other_than(public: Any) -> Any:
    """Return the public key of another key of the same kind."""
    if isinstance(public, ec.EllipticCurvePublicKey):
        return ec.generate_private_key(ec.SECP256R1()).public_key()
    if isinstance(public, ed25519.Ed25519PublicKey):
        return ed25519.Ed25519PrivateKey.generate().public_key()
    return rsa.generate_private_key(65537, 2048).public_key()


async def test_a_card_of_0_3_is_signed_as_the_official_models_write_it(tmp_path: Path) -> None:
    """a2a G8: a style of its own, without the members that have their default value."""
    settings = settings_of(tmp_path, KEYS["es256-pem"][2], card_style="0.3")
    agent = Signed()
    agent.card.capabilities.extensions[0].params.Clear()
    async with open_all(tmp_path, ("demo", agent), **settings) as plane:
        for path in (WELL_KNOWN, "/v1/card"):
            found = (await plane.http.get(path)).json()
            card = official_0_3.AgentCard.model_validate(found)
            (signature,) = card.signatures or []
            dumped = card.model_dump(
                mode="json", exclude={"signatures"}, exclude_defaults=True, exclude_none=True, by_alias=True
            )
            assert "preferredTransport" not in dumped and "url" in dumped
            for changed, valid in ((dumped, True), ({**dumped, "url": "https://other.example"}, False)):
                assert verified(signature, changed) is valid


def verified(signature: Any, card: Json) -> bool:
    """Return whether a signature is that of a card, by the canonical JSON of the official library of 0.3."""
    payload = json.dumps(without_empty(card), separators=(",", ":"), sort_keys=True)
    body = urlsafe_b64encode(payload.encode()).rstrip(b"=").decode()
    try:
        jwt.decode(f"{signature.protected}.{body}.{signature.signature}", _ECDSA.public_key(), algorithms=["ES256"])
    except jwt.InvalidSignatureError:
        return False
    return True


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("Json", value)
        return {name: kept for name, inner in members.items() if (kept := without_empty(inner)) is not None} or None
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [kept for inner in items if (kept := without_empty(inner)) is not None] or None
    return None if value == "" else value


async def test_each_style_is_signed_by_itself_and_keeps_its_tag(tmp_path: Path) -> None:
    """a2a G7, a2a G8: a signature of ECDSA would be another one each time."""
    async with open_behind(tmp_path, ("demo", Signed())) as behind:
        settings = settings_of(tmp_path, KEYS["es256-pem"][2])
        signatures: set[str] = set()
        for style in ("1.0", "0.3", "hybrid"):
            async with open_front(behind, card_style=style, **settings) as plane:
                first, second = [await plane.http.get(WELL_KNOWN) for _ in range(2)]
                assert first.headers["etag"] == second.headers["etag"]
                assert first.content == second.content
                known = await plane.http.get(WELL_KNOWN, headers={"If-None-Match": first.headers["etag"]})
                assert known.status_code == 304
                signatures.add(first.json()["signatures"][0]["signature"])
                pure = (await plane.http.get(WELL_KNOWN, headers={"A2A-Version": "1.0"})).json()
                verifier_of(_ECDSA.public_key(), "ES256")(ParseDict(pure, official.AgentCard()))
        assert len(signatures) == 3


async def test_cards_of_free_namespaces_and_of_other_spellings_displace_no_signature(tmp_path: Path) -> None:
    """a2a G7, a2a G8: anybody may ask for them, and a new signature of ECDSA changes the tag."""
    async with open_all(tmp_path, ("demo", Demo()), **settings_of(tmp_path, KEYS["es256-pem"][2])) as plane:

        async def tag(base: str) -> str:
            return str((await plane.http.head(base + WELL_KNOWN)).headers["etag"])

        before = [await tag(base) for base in ("", "/agents/demo")]
        spellings = (f"/agents/{one}" for one in ("%64emo", "d%65mo", "de%6do", "dem%6f"))
        for base in (*spellings, *(f"/api/a2a/n{number}/demo" for number in range(KEPT))):
            await tag(base)
        assert [await tag(base) for base in ("", "/agents/demo")] == before


async def test_a_card_is_signed_once_in_the_thread_of_large_work() -> None:
    """The event loop stays free, and equal cards that are asked for at once have one signature."""
    threads: list[str] = []

    def sign(payload: bytes) -> str:
        threads.append(threading.current_thread().name)
        return f"{len(threads)}..{payload.decode()}"

    signer = CardSigner(sign, lambda card: json.dumps(card).encode())
    with contextlib.closing(TranslationThread()) as worker:
        made = await asyncio.gather(*(signer.sign({"name": "a"}, "1.0", worker, keep=True) for _ in range(20)))
    assert len(threads) == 1 and threads[0].startswith(THREAD)
    assert {one.protected for one in made} == {"1"}


async def test_a_gateway_without_a_key_signs_nothing(tmp_path: Path) -> None:
    async with open_all(tmp_path) as plane:
        assert "signatures" not in await card_of(plane)
    agent = Demo()
    agent.card.signatures.add(protected="cHJvdGVjdGVk", signature="c2lnbmF0dXJl")
    folder = tmp_path / "other"
    folder.mkdir()
    async with open_all(folder, ("demo", agent)) as plane:
        # That of the agent does not cover what the gateway adds.
        assert "signatures" not in await card_of(plane)


async def card_of(plane: Plane) -> Json:
    found: Json = (await plane.http.get(WELL_KNOWN)).json()
    return found


@pytest.mark.parametrize(
    ("content", "more", "problem", "remedy"),
    [
        (None, {}, "cannot be read: No such file", "name a file with a private key"),
        (b"", {}, "has no private key", "JWK or PEM"),
        (b"{", {}, "has no private key", "JWK or PEM"),
        (b'{"kty": "EC"}', {}, "has no private key", "JWK or PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n", {}, "has no private key", "JWK or PEM"),
        (pem(_ECDSA, BestAvailableEncryption(b"secret")), {}, "has no private key", "without a password"),
        (pem(x25519.X25519PrivateKey.generate()), {}, "is not supported", "ES256, EdDSA or RS256"),
        (
            _ECDSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            {},
            "has no private key",
            "a private key",
        ),
        (jwk(ECAlgorithm.to_jwk(_ECDSA.public_key())), {}, "has no private key", "a private key"),
        (pem(rsa.generate_private_key(65537, 1024)), {}, "below the minimum", "ES256, EdDSA or RS256"),
        (b'{"kty": "oct", "k": "%s"}' % urlsafe_b64encode(b"x" * 48), {}, "others cannot verify", "a private key"),
        (pem(_ECDSA), {"card_key_id": ""}, "has no id", "TASKPLANE_GATEWAY_CARD_KEY_ID"),
        (pem(_ECDSA), {"card_key_url": "keys.json"}, "is not a URL", "TASKPLANE_GATEWAY_CARD_KEY_URL"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, more: Json, problem: str, remedy: str
) -> None:
    """a2a G8."""
    settings = {**settings_of(tmp_path, content or b""), **more}
    if content is None:
        (tmp_path / "card.key").unlink()
    with pytest.raises(Invalid) as refused:
        CardSigner.configured(GatewaySettings(**settings))
    assert refused.value.reason == "BAD_CARD_KEY"
    assert problem in refused.value.message and remedy in refused.value.suggestion
    assert "secret" not in refused.value.message


async def test_the_id_of_a_jwk_is_that_of_its_signatures(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, jwk(ECAlgorithm.to_jwk(_ECDSA), kid="own"), card_key_id="", card_key_url="")
    signer = CardSigner.configured(GatewaySettings(**settings))
    assert signer is not None
    with contextlib.closing(TranslationThread()) as worker:
        signature = await signer.sign({"name": "a"}, "1.0", worker, keep=True)
    header = json.loads(urlsafe_b64decode(signature.protected + "=="))
    assert header == {"alg": "ES256", "typ": "JOSE", "kid": "own"}


@pytest.mark.parametrize("library", ["jwt", "rfc8785"])
def test_a_missing_library_is_named_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Invalid, match=library) as refused:
        CardSigner.configured(GatewaySettings(**settings_of(tmp_path, b"")))
    assert refused.value.reason == "MISSING_LIBRARY"
    assert "pip install 'taskplane[signing]'" in refused.value.suggestion


@pytest.mark.parametrize(("style", "warned"), [("hybrid", True), ("1.0", False), ("0.3", False)])
def test_a_signed_hybrid_card_is_warned_of_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, style: str, warned: bool
) -> None:
    """a2a G8, a2a G16."""
    with caplog.at_level(logging.WARNING):
        CardSigner.configured(GatewaySettings(**settings_of(tmp_path, pem(_ECDSA), card_style=style)))
    assert ("TASKPLANE_GATEWAY_CARD_STYLE" in caplog.text) is warned
