"""Growing texts are written to a pipe piece by piece."""

import io

from taskplane.cli.writer import PlainWriter


def written(*steps: tuple[str, str, str]) -> str:
    """The output of a writer: each step is a method, a key and a text."""
    out = io.StringIO()
    writer = PlainWriter(out)
    for method, key, text in steps:
        getattr(writer, method)(key, text)
    writer.end()
    return out.getvalue()


def test_a_growing_text_is_written_once_piece_by_piece() -> None:
    assert written(("grow", "a", "hel"), ("grow", "a", "hello"), ("close", "a", "hello")) == "hello\n"


def test_the_final_text_adds_the_missing_rest() -> None:
    assert written(("grow", "a", "hel"), ("close", "a", "hello")) == "hello\n"


def test_a_different_final_text_is_written_whole_on_a_new_line() -> None:
    assert written(("grow", "a", "hel"), ("close", "a", "good day")) == "hel\ngood day\n"


def test_two_texts_never_share_a_line_and_neither_is_repeated() -> None:
    assert written(("grow", "a", "one"), ("grow", "b", "two"), ("close", "a", "one more"), ("close", "b", "two")) == (
        "one\ntwo\n more\n"
    )


def test_an_empty_text_writes_nothing() -> None:
    assert written(("grow", "a", ""), ("close", "a", "")) == ""


def test_a_text_of_an_agent_cannot_control_the_terminal() -> None:
    assert written(("close", "a", "a\x1b[31mb\x07c\u202ed\td\ne")) == "a[31mbcd\td\ne\n"
