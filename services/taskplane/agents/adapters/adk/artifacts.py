"""The artifact service of ADK for one turn: versions of artifacts are kept in the session, as its events are.

So later turns find them, and a rewind cuts them with the turn that saved them. The content of a large version is not
kept twice: it is read from the artifact of the task that saved it, which may have any size.
"""

import logging
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.genai import types

from taskplane.agents.adapters.adk.content import part_of
from taskplane.agents.adapters.adk.events import SavedArtifact, Stored, pack_artifact
from taskplane.agents.agent import Turn

log = logging.getLogger(__name__)

MOST_KEPT: Final = 1024 * 1024
"""Bytes of JSON that a version may have in order to be kept in the session."""
_URI: Final = "taskplane:{task_id}/{name}?version={version}"


class _Version(NamedTuple):
    about: ArtifactVersion
    part: types.Part | None


class TurnArtifacts(BaseArtifactService):
    """The artifacts of the session of a turn. All names belong to the session, also names with `user:`."""

    def __init__(self, turn: Turn, stored: Iterable[Stored]) -> None:
        self._turn = turn
        self._versions: dict[str, list[_Version]] = {}
        for entry in stored:
            if entry.artifact is not None:
                self._take(entry.artifact)

    def _take(self, saved: SavedArtifact) -> None:
        if saved.version is None:
            self._versions.pop(saved.name, None)
            return
        part = types.Part.model_validate_json(saved.part) if saved.part is not None else None
        self._versions.setdefault(saved.name, []).append(_Version(saved.version, part))

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Keep a version; return its number, from 0."""
        part = ensure_part(artifact)
        versions = self._versions.setdefault(filename, [])
        number = versions[-1].about.version + 1 if versions else 0
        about = ArtifactVersion(
            version=number,
            canonical_uri=_URI.format(task_id=self._turn.task_id, name=filename, version=number),
            custom_metadata=custom_metadata or {},
            create_time=time.time(),
            mime_type=part.inline_data.mime_type if part.inline_data else None,
        )
        encoded = part.model_dump_json(by_alias=True, exclude_none=True)
        saved = SavedArtifact(name=filename, version=about, part=encoded if len(encoded) <= MOST_KEPT else None)
        versions.append(_Version(about, part))
        await self._turn.session.append(pack_artifact(saved, self._turn))
        return number

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, or the newest version; None if it does not exist.

        A large version is read from its task. It is None if the task was deleted, or if the version was trimmed from
        the log of the task.
        """
        found = self._find(filename, version)
        if found is None or found.part is not None:
            return found.part if found else None
        task_id = found.about.canonical_uri.removeprefix("taskplane:").partition("/")[0]
        artifact = await self._turn.session.artifact(task_id, filename, {"adk_version": found.about.version})
        if artifact is None:
            log.warning("version %d of artifact %r no longer exists in task %s", found.about.version, filename, task_id)
            return None
        return part_of(artifact, found.about.mime_type)

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Return the names of all artifacts."""
        return sorted(self._versions)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of an artifact for this turn and later turns. Artifacts of tasks stay."""
        if self._versions.pop(filename, None) is not None:
            await self._turn.session.append(pack_artifact(SavedArtifact(name=filename), self._turn))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of the versions of an artifact."""
        return [version.about.version for version in self._versions.get(filename, ())]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the versions of an artifact without their content."""
        return [version.about for version in self._versions.get(filename, ())]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return a version, or the newest version, without its content; None if it does not exist."""
        found = self._find(filename, version)
        return found.about if found else None

    def _find(self, filename: str, version: int | None) -> _Version | None:
        versions = self._versions.get(filename, [])
        if version is None:
            return versions[-1] if versions else None
        return next((each for each in versions if each.about.version == version), None)
