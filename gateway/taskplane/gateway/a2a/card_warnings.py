"""A card as people read it: its warnings and its ways to sign in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from taskplane.gateway.translate.cards import Card
from taskplane.runtime.validation import is_loopback

_REQUIRED: Final = ("name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes")
_REQUIRED_OF_SKILL: Final = ("id", "name", "description", "tags")
_BINDINGS: Final = frozenset({"JSONRPC", "GRPC", "HTTP+JSON"})
_VERSIONS: Final = re.compile(r"(1\.0|0\.3)(\.\d+)?")
_MESSAGES: Final = {
    "MISSING": "The card lacks {}, which A2A requires.",
    "NO_STREAMING": "The agent does not stream: clients must poll for its progress.",
    "NO_SKILLS": "The card lists no skills: users cannot see the purpose of the agent.",
    "BAD_URL": "“{}” is not a valid URL for clients.",
    "OTHER_HOST": "{} is on another host than this server. Clients would send credentials there.",
    "PLAIN_HTTP": "{} is not encrypted. Others may read the messages.",
    "UNKNOWN_VERSION": "Protocol version “{}” is unknown; supported are 1.0 and 0.3.",
    "UNKNOWN_BINDING": "Protocol binding “{}” is unknown; supported are JSONRPC, GRPC and HTTP+JSON.",
}


@dataclass(frozen=True, slots=True)
class CardWarning:
    """A warning. `detail`: the member, the address or the version that it is about; empty for the whole card."""

    code: str
    detail: str = ""

    @property
    def message(self) -> str:
        """Return the warning as a sentence."""
        return _MESSAGES[self.code].format(self.detail)


def warnings(card: Card, scheme: str, host: str) -> list[CardWarning]:
    """Return the warnings for a 1.0 card requested by `scheme` at `host`, each one once."""
    return list(dict.fromkeys(_found(card, scheme, host.lower())))


def security(card: Card) -> list[str]:
    """Return the requirements of each security scheme of a 1.0 card, with its name."""
    return [f"{name}: {_asked(scheme)}" for name, scheme in sorted(card.get("securitySchemes", {}).items())]


def _found(card: Card, scheme: str, host: str) -> Iterator[CardWarning]:
    yield from (CardWarning("MISSING", name) for name in _REQUIRED if _lacks(card, name))
    interfaces, skills = card.get("supportedInterfaces", []), card.get("skills", [])
    if not interfaces:
        yield CardWarning("MISSING", "supportedInterfaces")
    if not skills:
        yield CardWarning("NO_SKILLS")
    for index, skill in enumerate(skills):
        name = skill.get("id") or index
        missing = (one for one in _REQUIRED_OF_SKILL if _lacks(skill, one))
        yield from (CardWarning("MISSING", f"skills[{name}].{one}") for one in missing)
    if not card.get("capabilities", {}).get("streaming"):
        yield CardWarning("NO_STREAMING")
    told: set[tuple[bool, str]] = set()
    for one in interfaces:
        url, binding = one.get("url", ""), one.get("protocolBinding", "")
        grpc = binding == "GRPC"
        bare = grpc and "://" not in url
        parts = _split(url)
        # Interfaces that differ in their paths alone have the same warnings.
        place = f"{parts.scheme}://{parts.netloc}" if parts.netloc and not bare else url
        if (grpc, place) not in told:
            yield from _of_address(url, host) if bare else _of_url(url, scheme, host, own_port=grpc)
        told.add((grpc, place))
        if not _VERSIONS.fullmatch(version := one.get("protocolVersion", "")):
            yield CardWarning("UNKNOWN_VERSION", version)
        if binding not in _BINDINGS:
            yield CardWarning("UNKNOWN_BINDING", binding)


def _lacks(found: Mapping[str, Any], name: str) -> bool:
    return found.get(name) in (None, "")


def _of_url(given: str, scheme: str, host: str, *, own_port: bool) -> Iterator[CardWarning]:
    """Yield the warnings for a URL. `own_port`: only the name of its host must be that of the card, as for gRPC."""
    url = _split(given)
    if not url.scheme or not url.hostname:
        yield CardWarning("BAD_URL", given)
        return
    if (url.hostname != _split(f"//{host}").hostname) if own_port else (url.netloc.lower() != host):
        yield CardWarning("OTHER_HOST", given)
    if url.scheme == "http" and (scheme == "https" or not is_loopback(url.hostname)):
        yield CardWarning("PLAIN_HTTP", given)


def _of_address(given: str, host: str) -> Iterator[CardWarning]:
    """Yield the warnings for the address of gRPC, which is a host and a port of its own, without a scheme."""
    address = _split(f"//{given}")
    if not address.hostname or not address.netloc.rpartition(":")[2].isdigit():
        yield CardWarning("BAD_URL", given)
    elif address.hostname != _split(f"//{host}").hostname:
        yield CardWarning("OTHER_HOST", given)


def _split(given: str) -> SplitResult:
    try:
        return urlsplit(given)
    except ValueError:
        return urlsplit("")


def _asked(scheme: Mapping[str, Any]) -> str:
    """Return the kind of a scheme, which is the name of its only member, and its details."""
    kind, told = next(iter(scheme.items()), ("", dict[str, Any]()))
    place = " ".join(filter(None, (told.get("location"), told.get("name"))))
    return ", ".join(
        filter(None, (kind.removesuffix("SecurityScheme"), told.get("scheme"), place, told.get("description")))
    )
