"""Ids derived from the invocation of a turn."""

import hashlib

from taskplane.runtime.ids import TIME_DIGITS


def derived(invocation_id: str, what: str) -> str:
    """Return an id derived from an invocation: the same for a repeat of the turn, and its neighbour in indexes."""
    digits = hashlib.sha256(f"{invocation_id}:{what}".encode()).hexdigest()
    return invocation_id[:TIME_DIGITS] + digits[TIME_DIGITS:32]


def turn_after(rewind_id: str) -> str:
    """Return the invocation of the turn that a rewind with a text begins."""
    return derived(rewind_id, "turn")
