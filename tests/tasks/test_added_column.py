"""The recipe for a new column: one declaration and one migration are enough."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.repo.tree import ROOT

_LAST_FIELD = re.compile(r"(class Row\(NamedTuple\):.*?)\n\n\n", re.DOTALL)
_CHECKS = "columns_are_the_fields or exactly_one_rule or no_column_that_an_index or gives_the_schema"
_MIGRATION = """
from alembic import op
from sqlalchemy import BigInteger, Column, text

from taskplane.storage.rebuild import add_column_before, drop_column_before

revision = "{number}"
down_revision = "{before}"
branch_labels = None
depends_on = None

_DEFINED = "weight BIGINT DEFAULT 0 NOT NULL"
_SNAPSHOT = "snapshot BLOB NOT NULL"


def upgrade() -> None:
    column = Column("weight", BigInteger, nullable=False, server_default=text("0"))
    add_column_before("task", column, _DEFINED, _SNAPSHOT)


def downgrade() -> None:
    drop_column_before("task", "weight", _DEFINED, _SNAPSHOT)
"""


@pytest.mark.more
def test_a_declaration_and_a_migration_add_a_column(tmp_path: Path) -> None:
    """The tests of the schema are green with it. They fail if one of the two is missing."""
    copy = tmp_path / "taskplane" / "tasks"
    shutil.copytree(ROOT / "services" / "taskplane" / "tasks", copy, ignore=shutil.ignore_patterns("__pycache__"))
    versions = copy / "migrations" / "versions"
    before = max(path.name[:4] for path in versions.glob("0*.py"))
    number = f"{int(before) + 1:04}"
    (versions / f"{number}_weight.py").write_text(_MIGRATION.format(number=number, before=before))
    assert "1 failed, 3 passed" in schema_report(tmp_path)
    task = copy / "domain" / "task.py"
    task.write_text(_LAST_FIELD.sub(r"\1\n    weight: ByItem[Growing[int]] = 0\n\n\n", task.read_text(), count=1))
    assert "4 passed" in schema_report(tmp_path)


def schema_report(changed: Path) -> str:
    """Return the report of the tests of the schema, with the changed package in place of ours."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not more", "-k", _CHECKS]
    done = subprocess.run(
        [*command, "tests/tasks/test_tables.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(changed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout
