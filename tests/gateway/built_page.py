"""A small built page, in the form of the real build output."""

import gzip
from pathlib import Path
from typing import Final

SCRIPT: Final = b"export const text = 'the page';\n" * 40
INDEX: Final = """<!doctype html>
<link rel="icon" href="./assets/icon-1.svg" type="image/svg+xml" />
<script type="module" crossorigin src="./assets/index-1.js"></script>
<link rel="stylesheet" crossorigin href="./assets/index-1.css">
"""


def build_page(folder: Path) -> Path:
    """Write the page into a new folder, and return it."""
    assets = folder / "assets"
    assets.mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "licenses.txt").write_text("MIT\n")
    (assets / "icon-1.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (assets / "index-1.css").write_text("body { margin: 0 }")
    (assets / "index-1.js").write_bytes(SCRIPT)
    (assets / "index-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    # A name that occurs in every row of the isolation matrix.
    (assets / "demo").write_bytes(b"\x00")
    return folder
