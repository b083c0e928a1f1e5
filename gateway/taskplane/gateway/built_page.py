"""The files of the web page, as `make ui` builds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

from taskplane.gateway.web.etags import digest

_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
_OTHER: Final = b"application/octet-stream"
# The beginning of the address of an asset in the built document.
_ASSETS: Final = b'"./assets/'
_NOT_BUILT: Final = "this installation does not contain it"


@dataclass(frozen=True, slots=True)
class File:
    """A built file. `gzipped` is its content compressed; empty if it was not worth while."""

    content: bytes
    gzipped: bytes
    media_type: bytes
    tag: bytes


class BuiltPage:
    """The built page, read once: files that changed while they are served would not fit those that browsers have."""

    def __init__(self, folder: Traversable) -> None:
        """Read the files of a folder, which may be missing."""
        top = {entry.name: entry.read_bytes() for entry in _entries(folder) if entry.is_file()}
        assets = {entry.name: entry.read_bytes() for entry in _entries(folder / "assets")}
        self._index = top.get("index.html", b"")
        self.assets: Mapping[str, File] = {
            name: _file(name, content, assets) for name, content in assets.items() if not name.endswith(".gz")
        }
        self.licenses = _file("licenses.txt", top.get("licenses.txt", b""), top)
        reason, _, _ = top.get("not-built.txt", b"").decode().partition("\n")
        # Empty if the page was built, be it of older sources.
        self.why_not = "" if self._index else reason or _NOT_BUILT

    def document(self, path: str) -> bytes:
        """Return the document for the path of a request, as it was sent. Its addresses are relative, so that it works
        below any path of a proxy."""
        return self._index.replace(_ASSETS, f'"{to_root(path)}ui/assets/'.encode())


def to_root(path: str) -> str:
    """Return the relative address of the root of the gateway, with a slash at its end, for a document at this path."""
    return "../" * (path.count("/") - 1) or "./"


def _entries(folder: Traversable) -> list[Traversable]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _file(name: str, content: bytes, beside: Mapping[str, bytes]) -> File:
    media_type = _TYPES.get(name.rpartition(".")[2], _OTHER)
    return File(content, beside.get(f"{name}.gz", b""), media_type, digest(content))
