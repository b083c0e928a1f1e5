"""Who may call what: one table per room, with a line per RPC. An RPC without a line is refused."""

import enum


class Access(enum.Enum):
    """What a method demands of its caller."""

    USER = "user"
    """Any principal. What it sees is a matter of scope, not of this table."""

    SERVICE = "service"
    """A principal of one of our own processes (`Principal.service`)."""

    PUBLIC = "public"
    """Nothing; the call may have no principal."""
