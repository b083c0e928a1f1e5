"""Access to methods: one table per service, with a line per RPC. An RPC without a line is refused.

The .proto file says which calls may be repeated (`idempotency_level`); see `service_config`.
"""

import enum


class Access(enum.Enum):
    """The caller that a method demands."""

    USER = "user"
    """Any principal. The stores show it only its own scope."""

    OPERATOR = "operator"
    """A principal that may operate (`Principal.operator`). The stores show it its tenant."""

    SERVICE = "service"
    """A process of the plane (`Principal.service`)."""

    PUBLIC = "public"
    """Nothing; the call may have no principal."""
