"""The rule by which the slots of a process are shared. L2."""

import pytest

from taskplane.runtime.sharing import Owner, SharedBy, Slots

ANN, BOB, CARL = ("t", "ann"), ("t", "bob"), ("t", "carl")
EVE = ("other", "eve")


def taken(slots: Slots, owner: Owner, most: int = 1_000) -> int:
    """Takes all that the owner may have, or `most`; returns how many that were."""
    number = 0
    while number < most and slots.may_have_slot(owner):
        slots.take(owner)
        number += 1
    return number


@pytest.mark.parametrize(("capacity", "of_one"), [(0, 0), (1, 1), (3, 3), (4, 3), (5, 4), (8, 6), (100, 75)])
def test_one_owner_alone_leaves_a_quarter_and_none_below_four(capacity: int, of_one: int) -> None:
    """It has three quarters at least; what is left is there for each of the others in turn."""
    slots = Slots(capacity, "users")
    assert taken(slots, ANN) == of_one
    assert taken(slots, BOB, 1) == (1 if capacity >= 4 else 0)


@pytest.mark.parametrize(("capacity", "greedy"), [(8, 1), (20, 2), (100, 3)])
def test_an_owner_without_a_run_finds_a_slot_beside_owners_that_want_all(capacity: int, greedy: int) -> None:
    """Each owner leaves a part of the slots that the owner before has left. The last slot is for an owner without a
    run."""
    slots = Slots(capacity, "users")
    for number in range(greedy):
        assert taken(slots, ("t", f"greedy {number}")) > 0
    while slots.free:
        newcomer = ("t", f"new {slots.free}")
        assert slots.may_have_slot(newcomer)
        slots.take(newcomer)
    assert not slots.may_have_slot(BOB)


def test_owners_that_want_all_slots_get_equal_shares_as_runs_end() -> None:
    """The first owner has three quarters; each slot that becomes free goes to the owner with the fewest."""
    slots = Slots(100, "users")
    held = {ANN: taken(slots, ANN), BOB: 0, CARL: 0}
    for _ in range(200):
        most = max(held, key=held.__getitem__)
        slots.give_back(most)
        held[most] -= 1
        for owner in sorted(held, key=held.__getitem__):
            held[owner] += taken(slots, owner)
    assert sorted(held.values()) == [30, 30, 30] and slots.free == 10


def test_the_owners_of_a_tenant_leave_an_eighth_to_other_tenants() -> None:
    """However many they are; the first of them leaves room for others of its tenant as well."""
    slots = Slots(100)
    assert taken(slots, ANN) == 75
    assert taken(slots, BOB, 1) == 1
    owners = 0
    while slots.may_have_slot(("t", f"owner {owners}")):
        slots.take(("t", f"owner {owners}"))
        owners += 1
    assert slots.free == 12 and not slots.tenant_may_have_slot("t")
    assert taken(slots, EVE) == 9
    assert slots.may_have_slot(("third", "fay"))


@pytest.mark.parametrize(("shared_by", "of_ann", "of_tenant"), [("tenants", 6, 7), ("users", 6, 8), ("one", 8, 8)])
def test_where_there_is_only_one_nothing_is_left(shared_by: SharedBy, of_ann: int, of_tenant: int) -> None:
    slots = Slots(8, shared_by)
    assert taken(slots, ANN) == of_ann
    assert of_ann + taken(slots, BOB) + taken(slots, CARL) == of_tenant


def test_a_returned_slot_can_be_taken_again() -> None:
    """Also if more slots were taken than there are."""
    slots = Slots(4, held={ANN: 3, BOB: 2})
    assert slots.free == -1 and not slots.may_have_slot(EVE)
    for owner in (ANN, ANN, ANN):
        slots.give_back(owner)
    assert slots.free == 2 and slots.may_have_slot(ANN) and slots.may_have_slot(EVE)
    assert slots.held_by({}).free == 4


def test_one_slot_beyond_a_share_is_lent_but_never_the_last_one() -> None:
    slots = Slots(8, "users")
    assert taken(slots, ANN) == 6 and slots.may_have_slot(ANN, lent=True)
    slots.take(ANN)
    assert slots.free == 1 and not slots.may_have_slot(ANN, lent=True)
    large = Slots(100, "users")
    assert taken(large, ANN) == 75 and large.may_have_slot(ANN, lent=True)
    large.take(ANN)
    assert not large.may_have_slot(ANN, lent=True) and large.may_have_slot(BOB)
