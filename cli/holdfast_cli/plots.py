"""Plots made of text: bars, and one line with a mark for each of many values. They need no colour."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = ".:-=+*#@"


def bar(value: float, most: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar as long as `value` is of `most`, at least one character for anything above 0."""
    if value <= 0 or most <= 0:
        return ""
    return ("#" if ascii_only else "█") * max(1, round(min(value / most, 1) * width))


def sparkline(values: Sequence[float], *, ascii_only: bool = False) -> str:
    """One character for each value, the highest for the largest one; 0 is a blank."""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    most = max(values, default=0)
    return "".join(
        " " if value <= 0 else levels[min(int(value / most * len(levels)), len(levels) - 1)] for value in values
    )


def grouped[T](items: Sequence[T], width: int) -> tuple[Sequence[T], ...]:
    """The items in order in at most `width` groups of the same size; the last may be smaller."""
    size = max(1, -(-len(items) // width))
    return tuple(items[start : start + size] for start in range(0, len(items), size))
