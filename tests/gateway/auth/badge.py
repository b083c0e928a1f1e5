"""An additional authentication scheme, outside the gateway's own: badges that can be revoked."""

from collections.abc import Mapping

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.auth.scheme import Asked, RequestHeaders
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.errors import Unauthenticated
from taskplane.runtime.principal import Principal


class Badges:
    """A scheme for calls with the header X-Badge. `owners`: the owner of each valid badge."""

    name = "badges"
    asked = Asked("badge", "a badge", "send X-Badge")
    trusted_names: frozenset[str] = frozenset()

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.owners = dict(owners)

    def configured(self, settings: GatewaySettings) -> "Badges":
        return self

    def identify(self, credentials: RequestHeaders) -> Caller | None:
        badge = credentials.header(b"x-badge")
        if not badge:
            return None
        if (owner := self.owners.get(badge)) is None:
            raise Unauthenticated("the badge is not valid", reason="BAD_CREDENTIALS")
        return Caller(Principal("default", owner, owner), self.name, badge)

    def alive(self, caller: Caller) -> bool:
        return caller.credential in self.owners

    def describe(self, card: a2a.AgentCard) -> None:
        scheme = card.security_schemes["badge"].api_key_security_scheme
        scheme.location, scheme.name = "header", "X-Badge"
        card.security_requirements.add().schemes["badge"].SetInParent()
