"""Addresses of services as gRPC targets, as gRPC Name Resolution defines them."""

import ipaddress
import re
from typing import Final

from taskplane.runtime.errors import Invalid

_SCHEME: Final = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):(.*)", re.DOTALL)
_ADDRESS: Final = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:\[\]/]+)):(?P<port>\d{1,5})")
_SUGGESTION: Final = "write host:port, a list a:1,b:1 of IP addresses, or a gRPC target such as dns:///name:port"


def target(address: str) -> str:
    """Return the gRPC target of `address`, which may be

    - a gRPC target: "dns:///tasks:50051", "ipv4:10.0.0.1:50051,10.0.0.2:50051", "ipv6:...", "unix:/path", "xds:///name";
    - "host:port", where the host may be a name, an IPv4 address or an IPv6 address in brackets;
    - a list of IP addresses with ports, separated by commas, all of one version of IP.

    Invalid `BAD_TARGET`: any other text. gRPC resolves one name per channel, so a list of names is refused; one name
    that resolves to all of them (a headless Service of Kubernetes, the name of a scaled Compose service) is not.
    """
    given = _SCHEME.fullmatch(address)
    scheme, rest = (given[1], given[2]) if given else ("", address)
    if scheme not in ("", "ipv4", "ipv6"):
        return address
    parts = [part.strip() for part in rest.split(",")]
    versions = {_version(part, address) for part in parts}
    if versions in ({4}, {6}):
        (version,) = versions
        if scheme in ("", f"ipv{version}"):
            return f"ipv{version}:{','.join(parts)}"
    elif not scheme and len(parts) == 1:
        return f"dns:///{parts[0]}"
    raise Invalid(
        f"{address!r} is not a service address: a list must have IPv4 or IPv6 addresses, not both and no names",
        reason="BAD_TARGET",
        suggestion="for replicas with names use one name that resolves to all of them: dns:///name:port",
    )


def _version(part: str, address: str) -> int | None:
    """Return the version of IP of one "host:port"; None: the host is a name."""
    found = _ADDRESS.fullmatch(part)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise Invalid(f"{address!r} is not a service address", reason="BAD_TARGET", suggestion=_SUGGESTION)
    try:
        return ipaddress.ip_address(found["bracketed"] or found["host"]).version
    except ValueError:
        if found["bracketed"] is None:
            return None
        raise Invalid(f"{address!r} is not a service address", reason="BAD_TARGET", suggestion=_SUGGESTION) from None
