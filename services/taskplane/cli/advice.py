"""The next step for a user of the command after a failure of its client."""

from typing import Final

from taskplane.client.failures import Failure, NotConnected

_ADVICE: Final = {
    "BAD_URL": "--url http://HOST:PORT",
    "GRPC_PORT": ("Give the HTTP address of the gateway, which `taskplane dev` prints as A2A:  --url http://HOST:PORT"),
    "NOT_TASKPLANE": (
        "Another program answers there, such as the sign-in page of a proxy.\n"
        "Open the address in a browser to identify it, or give another server with --url."
    ),
}
_NOT_CONNECTED: Final = "Start a server with: taskplane dev        Or give another one with --url."
# The server names the header, which the command writes by itself.
_NO_KEY: Final = "Set your API key:  export TASKPLANE_TOKEN=<id>.<secret>"
_UNAUTHORIZED: Final = 401


def advice(failure: Failure) -> str:
    """Return the suggestion of a failure, worded for this command; "" without a suggestion."""
    if isinstance(failure, NotConnected):
        return _NOT_CONNECTED
    if failure.code == _UNAUTHORIZED:
        return _NO_KEY
    return _ADVICE.get(failure.reason, failure.suggestion)
