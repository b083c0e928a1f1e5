"""The growth of a write-ahead log, seen from its file."""

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from taskplane.storage.wal import WriteAheadLog

PAGES = 10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def conn(file: Path) -> Generator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("PRAGMA wal_autocheckpoint = 0")
        yield conn


@pytest.fixture
def log(file: Path) -> Generator[WriteAheadLog]:
    log = WriteAheadLog(file, PAGES)
    yield log
    log.close()


def checkpoint(conn: sqlite3.Connection) -> tuple[int, int]:
    """How many frames it found in the log, and how many of them it copied."""
    busy, frames, copied = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert not busy
    return frames, copied


def write_until_grown(conn: sqlite3.Connection, log: WriteAheadLog) -> int:
    """The size of the file by then."""
    for _ in range(10 * PAGES):
        if log.grown():
            return Path(log.path).stat().st_size
        conn.execute("UPDATE one SET n = n + 1")
    raise AssertionError("it has not grown")


def test_it_has_grown_when_so_many_pages_were_added_also_from_its_start_again(
    conn: sqlite3.Connection, log: WriteAheadLog
) -> None:
    conn.execute("CREATE TABLE one (n INTEGER)")
    conn.execute("INSERT INTO one VALUES (0)")
    first = write_until_grown(conn, log)
    frames, copied = checkpoint(conn)
    assert frames == copied == PAGES
    log.checkpointed(frames)
    assert not log.grown()
    assert write_until_grown(conn, log) == first
    assert checkpoint(conn) == (PAGES, PAGES)


def test_where_a_reader_keeps_it_from_its_start_it_grows_on_from_the_last_checkpoint(
    conn: sqlite3.Connection, log: WriteAheadLog, file: Path
) -> None:
    conn.execute("CREATE TABLE one (n INTEGER)")
    conn.execute("INSERT INTO one VALUES (0)")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM one").fetchall()
        write_until_grown(conn, log)
        log.checkpointed(checkpoint(conn)[0])
        write_until_grown(conn, log)
        frames, copied = checkpoint(conn)
        assert frames == 2 * PAGES
        assert copied < PAGES
        log.checkpointed(frames)
        assert not log.grown()
    write_until_grown(conn, log)
    frames, copied = checkpoint(conn)
    assert frames == copied == 3 * PAGES
    log.checkpointed(frames)
    write_until_grown(conn, log)
    assert checkpoint(conn) == (PAGES, PAGES)


def test_what_could_not_be_copied_is_tried_again_after_as_many_pages(
    conn: sqlite3.Connection, log: WriteAheadLog
) -> None:
    conn.execute("CREATE TABLE one (n INTEGER)")
    conn.execute("INSERT INTO one VALUES (0)")
    write_until_grown(conn, log)
    log.checkpointed(None)
    assert not log.grown()
    write_until_grown(conn, log)
    assert checkpoint(conn) == (2 * PAGES, 2 * PAGES)


def test_a_log_that_was_never_written_has_not_grown(log: WriteAheadLog) -> None:
    assert not log.grown()
