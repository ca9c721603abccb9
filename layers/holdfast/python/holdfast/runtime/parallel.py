"""Independent actions side by side, for adapters that wait for the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

WORKERS = 8
"""Conditional puts of one batch that are under way at once; a batch has ten messages."""


def parallel(actions: Sequence[Callable[[], None]]) -> Sequence[Exception | None]:
    """Runs the actions on a few threads and gives each one's exception, or None, in the order of the actions."""
    if len(actions) == 1:
        return [_outcome(actions[0])]
    return list(_pool().map(_outcome, actions))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="ledger")


def _outcome(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - handed to the caller, who decides about each
        return error
    return None
