"""Reading and writing points in time. All of Holdfast's times are aware and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_EPOCH_MILLISECONDS_FROM = 100_000_000_000
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Times outside of these are refused: they are somebody's "never", and sums with them would leave the calendar."""


def parse_time(value: object) -> datetime:
    """The point in time that `value` means: RFC 3339 text (`Z`, offset or fraction), or epoch seconds or milliseconds.

    Text without an offset counts as UTC, as the AWS services write it.

    Raises:
        ValueError: `value` is none of these, or not between 1970 and 9000.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_epoch(value)
    if not isinstance(value, str):
        raise ValueError(f"not a time: {type(value).__name__}")  # noqa: TRY004 - one error type for every bad time
    text = value.strip()
    if text.isdecimal() and text.isascii():
        return _from_epoch(float(text))
    return _in_utc(datetime.fromisoformat(text))


def parse_http_date(value: object) -> datetime:
    """The point in time of an RFC 1123 date such as `Sat, 05 Sep 2026 15:10:09 GMT` (AWS Health), day padded or not.

    Raises:
        ValueError: `value` is not such a date, or not between 1970 and 9000.
    """
    if not isinstance(value, str):
        raise ValueError(f"not a date: {type(value).__name__}")  # noqa: TRY004 - one error type for every bad date
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"not a date: {value!r}") from error
    return _in_utc(moment)


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only where there are any. Sorts as text among times of one precision."""
    utc = moment.astimezone(UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec).replace("+00:00", "Z")


def _from_epoch(number: float) -> datetime:
    if not 0 <= number < _LATEST.timestamp() * 1000:
        raise ValueError("not a time between 1970 and 9000")
    return datetime.fromtimestamp(number / 1000 if number >= _EPOCH_MILLISECONDS_FROM else number, UTC)


def _in_utc(moment: datetime) -> datetime:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if not _EARLIEST <= aware < _LATEST:
        raise ValueError(f"not a time between 1970 and 9000: {moment.isoformat()}")
    return aware.astimezone(UTC)
