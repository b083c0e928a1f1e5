"""The one error of agents that cannot be served."""

from taskplane.runtime.errors import Invalid


def bad_agent(spec: str, problem: str, suggestion: str) -> Invalid:
    """Return the error that says which agent cannot be served, why, and what to do.

    `spec`: what the operator named it.
    """
    return Invalid(f"agent {spec!r}: {problem}", reason="BAD_AGENT", suggestion=suggestion, fields={"agents": problem})
