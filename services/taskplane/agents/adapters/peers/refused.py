"""The error of an answer that cannot be used."""

import httpx


class RefusedAnswer(httpx.RequestError):
    """The answer of a remote server is too large, or invalid by A2A. The text is for users.

    This is an error of httpx, so that the SDK raises its own error with this one as the cause.
    """


def too_large(what: str, limit: int) -> RefusedAnswer:
    """Return the error of an answer, or a part of one, with more than `limit` bytes."""
    return RefusedAnswer(f"The remote agent's server sent {what} of more than {limit / 2**20:g} MiB.")
