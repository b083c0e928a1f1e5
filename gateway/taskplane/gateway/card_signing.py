"""Signatures of agent cards: JWS over the canonical JSON of a card (A2A 1.0 section 8.4, RFC 7515, RFC 8785).

The libraries are those of the extra `signing`, and are imported for a gateway with a key alone.
"""

import asyncio
import hashlib
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import orjson
from cachetools import LRUCache

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.translate.cards import PROTOCOL_0_3, Card
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime.errors import Invalid

if TYPE_CHECKING:
    from jwt import PyJWK

_log = logging.getLogger(__name__)
KEPT: Final = 1_000
"""The number of signatures that are kept for the cards of agents, and as many for all others."""
_ALGORITHMS: Final = frozenset(
    {"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
)
# Members of 0.3 with their default values, which the official library leaves out of the canonical JSON.
_DEFAULTS_0_3: Final = {"protocolVersion": PROTOCOL_0_3, "preferredTransport": "JSONRPC"}


class CardSigner:
    """Signs each form of a card by itself. Equal cards have equal signatures, so that their tags stay the same."""

    def __init__(self, sign: Callable[[bytes], str], canonical: Callable[[Any], bytes]) -> None:
        """`sign` returns the compact JWS of a payload; `canonical` the canonical JSON of a value."""
        self._sign = sign
        self._canonical = canonical
        self._kept: LRUCache[bytes, a2a.AgentCardSignature] = LRUCache(KEPT)
        self._others: LRUCache[bytes, a2a.AgentCardSignature] = LRUCache(KEPT)
        self._signing = asyncio.Lock()

    @classmethod
    def configured(cls, settings: GatewaySettings) -> "CardSigner | None":
        """Return the signer of the settings; None without a key. Raise Invalid `BAD_CARD_KEY` or `MISSING_LIBRARY`."""
        if not settings.card_key:
            return None
        try:
            import rfc8785
            from jwt import PyJWS
        except ImportError as error:
            raise Invalid(
                f"signing agent cards requires a library that is not installed: {error.name}",
                reason="MISSING_LIBRARY",
                suggestion="pip install 'taskplane[signing]', or unset TASKPLANE_GATEWAY_CARD_KEY",
            ) from error
        key = _read(settings)
        header = _header(settings, key)
        if settings.card_style == "hybrid":
            _log.warning(
                "the hybrid card is signed as it is, and clients of either version may read it otherwise; set "
                "TASKPLANE_GATEWAY_CARD_STYLE to 1.0 or 0.3"
            )
        jws = PyJWS()

        def sign(payload: bytes) -> str:
            return jws.encode(payload, key.key, algorithm=key.algorithm_name, headers=header)

        return cls(sign, cast("Callable[[Any], bytes]", rfc8785.dumps))

    async def sign(self, card: Card, style: str, worker: TranslationThread, *, keep: bool) -> a2a.AgentCardSignature:
        """Return the signature of a card in one of its forms, by the values of the setting `card_style`.

        `keep`: it is the public card of an agent at its own address. Anybody can ask for cards with other URLs, by a
        new namespace in the path; their signatures never displace one of these.
        """
        payload = self._canonical(canonical_form(card, style))
        made, name = self._kept if keep else self._others, hashlib.sha256(payload).digest()
        if (found := made.get(name)) is not None:
            return found
        # One at a time: equal cards are signed once, and large work waits for one signature at most.
        async with self._signing:
            if (found := made.get(name)) is None:
                protected, _, signature = (await worker.run_long(self._sign, payload)).split(".")
                found = made[name] = a2a.AgentCardSignature(protected=protected, signature=signature)
        return found


def canonical_form(card: Card, style: str) -> Card:
    """Return the part of a card that is signed: without its signatures, and without members that are empty or have
    their default value."""
    found = {name: value for name, value in card.items() if name != "signatures"}
    if style == "0.3":
        found = {name: value for name, value in found.items() if _DEFAULTS_0_3.get(name) != value}
        schemes = found.get("securitySchemes", {})
        found["securitySchemes"] = {
            name: {member: value for member, value in scheme.items() if member != "type"}
            for name, scheme in schemes.items()
        }
    whole: Card = _without_empty(found) or {}
    return whole


def _without_empty(value: Any) -> Any:
    """Return a value without empty texts, lists and objects inside; None if nothing is left."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: kept for name, inner in members if (kept := _without_empty(inner)) is not None} or None
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [kept for inner in items if (kept := _without_empty(inner)) is not None] or None
    return None if value == "" else value


def _read(settings: GatewaySettings) -> "PyJWK":
    """Return the private key of the file, a JWK or PEM."""
    from jwt import PyJWK, PyJWS
    from jwt.exceptions import PyJWTError

    path = settings.card_key
    try:
        text = Path(path).read_bytes()
        with warnings.catch_warnings():
            # A key that is too short is an error here.
            warnings.simplefilter("error")
            key = PyJWK(orjson.loads(text) if text.lstrip().startswith(b"{") else _jwk_of_pem(text))
            PyJWS().encode(b"", key.key, algorithm=key.algorithm_name)
    except OSError as error:
        raise _bad_key(path, f"cannot be read: {error.strerror}") from error
    except (PyJWTError, ValueError, TypeError, AttributeError, Warning) as error:
        raise _bad_key(path, f"has no private key to sign with: {error}") from error
    if key.algorithm_name not in _ALGORITHMS:
        raise _bad_key(path, f"has a key for {key.algorithm_name}, which others cannot verify")
    return key


def _jwk_of_pem(text: bytes) -> dict[str, Any]:
    """Return the JWK of a private key in PEM. ValueError, TypeError: it is none, or has a password."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    key = load_pem_private_key(text, None)
    if isinstance(key, EllipticCurvePrivateKey):
        return ECAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, Ed25519PrivateKey):
        return OKPAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, RSAPrivateKey):
        return RSAAlgorithm.to_jwk(key, as_dict=True)
    raise ValueError(f"{type(key).__name__} is not supported")


def _header(settings: GatewaySettings, key: "PyJWK") -> dict[str, Any]:
    """Return the protected header (A2A 1.0 section 8.4.2)."""
    kid = settings.card_key_id or key.key_id
    if not kid:
        raise Invalid(
            f"the key in {settings.card_key} has no id",
            reason="BAD_CARD_KEY",
            suggestion="set TASKPLANE_GATEWAY_CARD_KEY_ID to the `kid` by which clients know the key",
        )
    header: dict[str, Any] = {"typ": "JOSE", "kid": kid}
    if url := settings.card_key_url:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise Invalid(
                f"{url!r} is not a URL of http or https",
                reason="BAD_CARD_KEY",
                suggestion="set TASKPLANE_GATEWAY_CARD_KEY_URL to the URL of the JWK set with the public key",
            )
        header["jku"] = url
    return header


def _bad_key(path: str, problem: str) -> Invalid:
    return Invalid(
        f"the file {path} of TASKPLANE_GATEWAY_CARD_KEY {problem}",
        reason="BAD_CARD_KEY",
        suggestion="name a file with a private key for ES256, EdDSA or RS256, as JWK or PEM without a password",
    )
