"""When small transactions run on the event loop, and when they do not."""

from taskplane.storage.pace import Bounds, Pace

BOUNDS = Bounds(mean=0.002, slow=0.1, long=1.0, fewest=4, most=16)
QUICK, MIDDLING, SLOW = 0.0005, 0.05, 0.5


def commits_until_quick(pace: Pace, commit: float = QUICK) -> int:
    """How many the thread is given before the loop is tried."""
    count = 1
    while not pace.note(commit, commit):
        count += 1
        assert count < 100
    assert pace.quick
    return count


def test_the_thread_comes_first_and_what_it_takes_there_says_nothing() -> None:
    for commit in (QUICK, SLOW):
        pace = Pace(BOUNDS)
        assert not pace.quick
        assert commits_until_quick(pace, commit) == 4


def test_one_slow_commit_or_one_long_transaction_leaves_the_loop() -> None:
    for took, commit in ((SLOW, SLOW), (2.0, QUICK), (2.0, None)):
        pace = Pace(BOUNDS)
        commits_until_quick(pace)
        assert not pace.note(QUICK, QUICK)
        assert pace.note(took, commit)
        assert not pace.quick
        assert pace.slow == took


def test_a_mean_that_is_too_high_leaves_the_loop_and_a_single_middling_commit_does_not() -> None:
    pace = Pace(BOUNDS)
    commits_until_quick(pace)
    assert not pace.note(MIDDLING, MIDDLING)
    assert not pace.note(MIDDLING, None)
    for _ in range(100):
        if pace.note(MIDDLING, MIDDLING):
            break
    assert not pace.quick
    assert pace.mean > BOUNDS.mean


def test_the_more_often_it_went_wrong_the_longer_the_thread_keeps_them() -> None:
    pace = Pace(BOUNDS)
    needed = [commits_until_quick(pace)]
    for _ in range(4):
        pace.note(SLOW, SLOW)
        needed.append(commits_until_quick(pace))
    assert needed == [4, 8, 16, 16, 16]
    for _ in range(100):
        assert not pace.note(QUICK, QUICK)
    pace.note(SLOW, SLOW)
    assert commits_until_quick(pace) == 8
