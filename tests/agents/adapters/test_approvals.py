"""The reading of an answer to the question whether a tool may be called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskplane.agents.adapters.approvals import decision


@pytest.mark.parametrize(
    "answer",
    [True, "yes", " Yes! ", "OK.", "approved", {"confirmed": True}, {"approved": "yes"}, {"type": "approve"}]
    + [{"decision": "accept", "reason": "fine"}, {"rejected": False}, {"confirmed": True, "payload": {"a": 1}}],
)
def test_clear_approvals(answer: object) -> None:
    assert decision(answer) is True


@pytest.mark.parametrize(
    "answer",
    [False, "no", "Deny.", "false", {"approved": False}, {"rejected": True}, {"type": "reject", "reason": "x"}],
)
def test_clear_denials(answer: object) -> None:
    assert decision(answer) is False


@pytest.mark.parametrize(
    "answer",
    ["ok, but not the delete", "yes and no", "", " ", None, 1, 1.0, ["yes"], {}, {"approved": True, "denied": True}]
    + [{"approved": True, "only": "a"}, {"approved": 1}, {"approved": None}, {"approved": ["yes"]}, {"reason": "yes"}],
)
def test_anything_else_is_unclear(answer: object) -> None:
    assert decision(answer) is None


@given(st.lists(st.text("abcynosek.,!", min_size=1), min_size=2, max_size=4))
def test_words_in_a_longer_text_are_unclear(words: list[str]) -> None:
    assert decision(" x ".join(words)) is None
