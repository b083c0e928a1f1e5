"""`make release` in copies of the sources."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repo.tree import ROOT, files, name

EPOCH: Final = 1_767_225_600
_TOOLS: Final = ROOT / ".venv-release"


@dataclass(frozen=True)
class Built:
    """Four files in one folder."""

    folder: Path

    def wheel(self, distribution: str) -> Path:
        """The wheel of `taskplane` or `taskplane_client`."""
        (found,) = self.folder.glob(f"{distribution}-*.whl")
        return found

    def sdist(self, distribution: str) -> Path:
        """The sdist of `taskplane` or `taskplane_client`."""
        (found,) = self.folder.glob(f"{distribution}-*.tar.gz")
        return found


def release(folder: Path) -> Built:
    """Copies the sources to `folder`, without the built page, and makes a release there."""
    for path in files():
        copy = folder / name(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    done = subprocess.run(
        ["make", "release", f"RELEASE={_TOOLS}"],
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(folder / "dist")
