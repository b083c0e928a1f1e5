"""The error for agents that cannot be served."""

from taskplane.agents.sources import described, in_parentheses, line_of, place_of
from taskplane.runtime.errors import Invalid


def bad_agent(spec: str, problem: str, suggestion: str) -> Invalid:
    """Return the error with the agent that cannot be served, the reason and the remedy.

    `spec`: its name by the operator.
    """
    return Invalid(f"agent {spec!r}: {problem}", reason="BAD_AGENT", suggestion=suggestion, fields={"agents": problem})


def bad_code(spec: str, error: BaseException) -> Invalid:
    """Return the error for an agent with code that raised `error` when it was loaded."""
    problem = f"its code raised {described(error)}{in_parentheses(place_of(error))}"
    return bad_agent(spec, problem, line_of(error) or "check its code that runs at import")
