"""The error of an answer that cannot be used."""

import httpx


class RefusedAnswer(httpx.RequestError):
    """An answer of a remote server that is too large, or invalid by A2A. Its text is for users.

    It is an error of httpx, so that the SDK raises it as its own error, with this one as the cause.
    """


def too_large(what: str, limit: int) -> RefusedAnswer:
    """Return the error of an answer, or a part of one, with more than `limit` bytes."""
    return RefusedAnswer(f"The remote agent's server sent {what} of more than {limit / 2**20:g} MiB.")
