"""Marks for the plane of a test of the page: one process by default, four processes for `make test-more`, and some
tests only with THOROUGH=1."""

import pytest
from tests.support.thorough import THOROUGH

_FOUR = [pytest.param("four_processes", marks=pytest.mark.more)]

on_both = pytest.mark.parametrize("plane", ["one_process", *_FOUR], indirect=True)
on_four = pytest.mark.parametrize("plane", _FOUR, indirect=True)
# For tests that take long on four processes and differ little there.
on_both_if_thorough = pytest.mark.parametrize("plane", ["one_process", *(_FOUR if THOROUGH else [])], indirect=True)
thorough = pytest.mark.skipif(not THOROUGH, reason="takes long; THOROUGH=1 runs it")
