"""Agent cards between the protobuf of A2A 1.0 and that of 0.3.

Most members have the same numbers and types in both, so they are copied as bytes; what the other version does not know
is dropped. Interfaces, signatures, the icon and the extended card are elsewhere in each.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.cards import PROTOCOL_0_3
from taskplane.gateway.translate.versions import version_of

_VERSION: Final = "0.3"
_DEFAULT_TRANSPORT: Final = "JSONRPC"
# Members whose numbers mean something else in the other version.
_MOVED_IN_1_0: Final = ("supported_interfaces", "signatures", "icon_url")
_MOVED_IN_0_3: Final = (
    "url",
    "supports_authenticated_extended_card",
    "preferred_transport",
    "additional_interfaces",
    "protocol_version",
    "signatures",
    "icon_url",
)


def card_to_0_3(found: a2a.AgentCard, into: old.AgentCard) -> None:
    """Fill an AgentCard of 0.3 with the interfaces of that version, the first of which is the preferred one."""
    _same_without(found, _MOVED_IN_1_0, into)
    for signature in found.signatures:
        _same(signature, into.signatures.add())
    into.icon_url = found.icon_url
    into.supports_authenticated_extended_card = found.capabilities.extended_agent_card
    into.protocol_version = PROTOCOL_0_3
    for one in found.supported_interfaces:
        if version_of(one.protocol_version) == _VERSION:
            into.additional_interfaces.add(url=one.url, transport=one.protocol_binding)
    if into.additional_interfaces:
        into.url = into.additional_interfaces[0].url
        into.preferred_transport = into.additional_interfaces[0].transport


def card_to_1_0(found: old.AgentCard, into: a2a.AgentCard) -> None:
    """Fill an AgentCard of 1.0 with the interfaces of 0.3, each once."""
    _same_without(found, _MOVED_IN_0_3, into)
    for signature in found.signatures:
        _same(signature, into.signatures.add())
    if found.icon_url:
        into.icon_url = found.icon_url
    if found.supports_authenticated_extended_card:
        into.capabilities.extended_agent_card = True
    preferred = (found.url, found.preferred_transport or _DEFAULT_TRANSPORT)
    others = [(one.url, one.transport or _DEFAULT_TRANSPORT) for one in found.additional_interfaces]
    interfaces = [preferred, *others] if found.url else others
    for url, transport in dict.fromkeys(interfaces):
        into.supported_interfaces.add(url=url, protocol_binding=transport, protocol_version=_VERSION)


def _same(found: Message, into: Message) -> None:
    """Fill a message with the fields of the other version that have equal numbers."""
    into.MergeFromString(found.SerializeToString())
    into.DiscardUnknownFields()


def _same_without(found: Message, names: Sequence[str], into: Message) -> None:
    alike = type(found)()
    alike.CopyFrom(found)
    for name in names:
        alike.ClearField(name)
    _same(alike, into)
