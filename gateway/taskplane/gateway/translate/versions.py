"""The names of protocol versions."""


def version_of(named: str) -> str:
    """Return major and minor of a protocol version; the patch number does not count (A2A 1.0 section 3.6)."""
    return ".".join(named.strip().split(".")[:2])
