"""The stores and an executor, as for the executor's tests."""

from tests.executor.conftest import plane, stores

__all__ = ["plane", "stores"]
