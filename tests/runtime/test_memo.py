"""What was worked out once is not worked out again, and memory stays bounded."""

import pytest

from taskplane.runtime.memo import Memo


def test_a_key_is_worked_out_once_and_a_failure_each_time() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        if not text:
            raise ValueError("no text")
        return len(text)

    memo = Memo(length)
    assert [memo["abc"], memo["abc"], memo["de"]] == [3, 3, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="no text"):
            memo[""]
    assert asked == ["abc", "de", "", ""]


def test_it_begins_anew_when_it_is_full() -> None:
    memo: Memo[int, int] = Memo(lambda key: key + 1, limit=3)
    for key in range(10):
        assert memo[key] == key + 1
        assert len(memo) <= 3
