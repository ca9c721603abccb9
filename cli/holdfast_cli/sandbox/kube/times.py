"""Kubernetes' way to write a time: RFC 3339, UTC, whole seconds."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """`2026-09-22T12:14:38Z`; ValueError for a naive datetime, whose zone would be a guess."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: give an aware datetime")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """The time that `timestamp` wrote, fractions of a second too."""
    return datetime.fromisoformat(text).astimezone(UTC)
