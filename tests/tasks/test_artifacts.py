"""Artifacts read piece by piece against the fold of the same events (`domain/artifacts.py`)."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.artifacts import Outline, Parts, Piece, Rest, pages
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.task import Event


def text(content: str, media_type: str = "") -> a2a.Part:
    return a2a.Part(text=content, media_type=media_type)


def raw(content: bytes) -> a2a.Part:
    return a2a.Part(raw=content, filename="f")


def update(parts: list[a2a.Part], append: bool, name: str) -> a2a.TaskArtifactUpdateEvent:
    artifact = a2a.Artifact(artifact_id="a", parts=parts, name=name)
    return a2a.TaskArtifactUpdateEvent(artifact=artifact, append=append)


plain = st.builds(text, st.text("aé😀\x00", max_size=6))
others = st.one_of(
    st.builds(raw, st.binary(max_size=9)),
    st.builds(text, st.text("ab", max_size=3), st.just("text/csv")),
    st.just(a2a.Part(url="https://example.org/ü", media_type="no type")),
    st.just(a2a.Part()),
)
parts_of = st.lists(st.one_of(plain, plain, others), min_size=1, max_size=4)
updates = st.builds(update, parts_of, st.booleans(), st.sampled_from(["", "n", "m"]))


def event(number: int, told: a2a.TaskArtifactUpdateEvent) -> Event:
    payload = a2a.StreamResponse(artifact_update=told).SerializeToString()
    return Event("u", number, None, None, 1, 1, ARTIFACT, 0, "", None, None, None, False, payload, 0, None)


def assembled(pieces: list[Piece]) -> list[tuple[bytes, bytes]]:
    """Each part, serialized without its content, and its content."""
    parts: list[tuple[bytes, bytes]] = []
    for part, data in pieces:
        if part is not None:
            parts.append((part.SerializeToString(), data))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + data)
    return parts


@given(st.lists(updates, min_size=1, max_size=6), st.integers(0, 40), st.integers(1, 9))
def test_an_artifact_read_by_its_events_is_that_of_the_folded_task(
    given_updates: list[a2a.TaskArtifactUpdateEvent], offset: int, most: int
) -> None:
    """P7: its parts, its content from any byte on, its fields and its digest, in pages of any size."""
    given_updates[0].append = False
    (artifact,) = fold(a2a.Task(), [event(*each) for each in enumerate(given_updates, 1)]).artifacts
    begin = max(at for at, one in enumerate(given_updates) if not one.append)
    parts, outline, pieces = Parts(), Outline(), list[Piece]()
    for one in given_updates[begin:]:
        outline.describe(one.artifact, append=one.append)
        pieces += parts.read(one.artifact.parts, append=one.append)
    whole = list(Parts().read(artifact.parts, append=False))
    folded = Outline()
    folded.describe(artifact, append=False)
    for its, of in ((pieces, outline), (whole, folded)):
        for piece in its:
            of.add(piece)
    assert outline.digest() == folded.digest()
    assert (outline.size, outline.kinds, outline.parts) == (folded.size, folded.kinds, folded.parts)
    assert len(artifact.parts) == len(whole) == outline.parts
    assert assembled(pieces) == assembled(whole)
    rest = Rest(offset)
    split = [list(pages(rest.of(some), most)) for some in (pieces[:2], pieces[2:])]
    sent = list(chain.from_iterable(chain.from_iterable(split)))
    assert all(len(page) == 1 or sum(len(data) for _, data in page) <= most for some in split for page in some)
    assert all(len(piece.data) <= most for piece in sent)
    assert assembled(sent) == assembled(list(Rest(offset).of(whole)))
    assert b"".join(data for _, data in sent) == b"".join(data for _, data in whole)[offset:]
