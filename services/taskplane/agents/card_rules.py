"""The rules for the card that an author wrote (A2A 1.0 sections 4.4 and 4.5).

The gateway completes what a card leaves out as a whole: version, description, modes, skills and their tags. What is
there must be complete, so that every client can read the card. But an OAuth flow may have no scopes (OpenAPI 3.2
section 4.29), and the card may contain its icon (RFC 2397).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "AgentProvider": ("url", "organization"),
    "AgentSkill": ("id", "name", "description"),
    "AgentExtension": ("uri",),
    "APIKeySecurityScheme": ("location", "name"),
    "HTTPAuthSecurityScheme": ("scheme",),
    "OAuth2SecurityScheme": ("flows",),
    "OpenIdConnectSecurityScheme": ("open_id_connect_url",),
    "AuthorizationCodeOAuthFlow": ("authorization_url", "token_url"),
    "ClientCredentialsOAuthFlow": ("token_url",),
    "DeviceCodeOAuthFlow": ("device_authorization_url", "token_url"),
}
_ONE_OF: Final = frozenset({"SecurityScheme", "OAuthFlows"})
# Replaced by the gateway.
_IGNORED: Final = frozenset({"supported_interfaces", "signatures"})
_PLACES: Final = ("header", "query", "cookie")
_ICON: Final = re.compile(r"data:image/[^\s]+", re.IGNORECASE)
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")


@dataclass(frozen=True, slots=True)
class Broken:
    """A field of a card that breaks a rule: its path, the rule, and what to do."""

    field: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field} {self.rule}"


def broken_rules(card: a2a.AgentCard) -> list[Broken]:
    """Return the fields of a card that break a rule, in the order of its fields."""
    return [*_of_message(card, ""), *_of_ids(card), *_of_requirements(card)]


def _of_message(message: Message, path: str) -> Iterator[Broken]:
    """Yield what is wrong in a message and in those inside it. `path` ends with a dot unless it is empty."""
    kind = message.DESCRIPTOR
    for name in _REQUIRED.get(kind.name, ()):
        value = getattr(message, name)
        if not (message.HasField(name) if isinstance(value, Message) else value):
            yield Broken(path + name, "is required", f"set {name}, or leave the whole {kind.name} out")
    if kind.name in _ONE_OF and not message.ListFields():
        names = ", ".join(field.name for field in kind.fields)
        yield Broken(path.rstrip("."), "is empty", f"set one of {names}")
    for field, value in message.ListFields():
        if field.name in _IGNORED or (field.message_type and field.message_type.file.name != kind.file.name):
            continue
        where = path + field.name
        if field.message_type and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            values = [(inner, value[key], f"{where}[{key}]") for key in sorted(value)]
        elif field.is_repeated:
            values = [(field, one, f"{where}[{index}]") for index, one in enumerate(value)]
        else:
            values = [(field, value, where)]
        for one in values:
            yield from _of_value(*one)


def _of_value(field: FieldDescriptor, value: Any, path: str) -> Iterator[Broken]:
    if isinstance(value, Message):
        yield from _of_message(value, f"{path}.")
    elif isinstance(value, str):
        yield from _of_text(field, value, path)


def _of_text(field: FieldDescriptor, text: str, path: str) -> Iterator[Broken]:
    if field.is_repeated and not text.strip():
        yield Broken(path, "is blank", "leave it out")
    elif field.name == "location" and text not in _PLACES:
        yield Broken(path, f"is {text[:40]!r}", f"use one of {', '.join(_PLACES)}")
    elif field.name == "icon_url" and _ICON.fullmatch(text):
        return
    elif field.name == "uri" and not _URI.fullmatch(text):
        yield Broken(path, f"is {text[:100]!r}, no URI", "name the extension by a URI, such as https://HOST/NAME/v1")
    elif (field.name == "url" or field.name.endswith("_url")) and not _is_web_address(text):
        yield Broken(path, f"is {text[:100]!r}, no URL of http or https", "write it as https://HOST/PATH")


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)
    except ValueError:
        return False


def _of_ids(card: a2a.AgentCard) -> Iterator[Broken]:
    yield from _repeated("skills[{}].id", [skill.id for skill in card.skills], "give each skill an id of its own")
    uris = [extension.uri for extension in card.capabilities.extensions]
    yield from _repeated("capabilities.extensions[{}].uri", uris, "declare each extension once")


def _repeated(path: str, names: Iterable[str], remedy: str) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name and name in seen:
            yield Broken(path.format(index), f"is {name[:100]!r}, as another one is", remedy)
        seen.add(name)


def _of_requirements(card: a2a.AgentCard) -> Iterator[Broken]:
    """Yield the requirements that name a security scheme which the card does not have."""
    schemes = sorted(card.security_schemes)
    have = f"the card has {', '.join(schemes)}" if schemes else "the card has no security_schemes"
    places = [("", card.security_requirements)]
    places += [(f"skills[{index}].", skill.security_requirements) for index, skill in enumerate(card.skills)]
    for path, requirements in places:
        for index, one in enumerate(requirements):
            for name in sorted(one.schemes.keys() - card.security_schemes.keys()):
                where = f"{path}security_requirements[{index}].schemes[{name}]"
                yield Broken(where, f"is no scheme of the card ({have})", f"add security_schemes[{name!r}]")
