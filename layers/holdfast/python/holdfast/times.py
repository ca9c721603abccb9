"""Reading and writing points in time. All of Holdfast's times are aware and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_EPOCH_MILLISECONDS_FROM = 100_000_000_000
_EPOCH_LATEST_SECONDS = 253_402_300_799  # 9999-12-31T23:59:59Z


def parse_time(value: object) -> datetime:
    """The point in time that `value` means: RFC 3339 text (`Z`, offset or fraction), or epoch seconds or milliseconds.

    Text without an offset counts as UTC, as the AWS services write it.

    Raises:
        ValueError: `value` is none of these.
    """
    if isinstance(value, bool) or value is None:
        raise ValueError(f"not a time: {value!r}")
    if isinstance(value, int | float):
        return _from_epoch(float(value))
    text = str(value).strip()
    if text.isdecimal() and text.isascii():
        return _from_epoch(float(text))
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"not a time on the calendar: {text!r}") from error


def parse_http_date(value: object) -> datetime:
    """The point in time of an RFC 1123 date such as `Sat, 05 Sep 2026 15:10:09 GMT` (AWS Health), day padded or not.

    Raises:
        ValueError: `value` is not such a date.
    """
    if not isinstance(value, str):
        raise ValueError(f"not a date: {value!r}")  # noqa: TRY004 - one error type for every bad date
    try:
        moment = parsedate_to_datetime(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"not a date: {value!r}") from error


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only where there are any. Sorts as text among times of one precision."""
    utc = moment.astimezone(UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=spec).replace("+00:00", "Z")


def sortable_time(moment: datetime) -> str:
    """RFC 3339 in UTC, always with milliseconds, so that keys sort by time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _from_epoch(number: float) -> datetime:
    seconds = number / 1000 if number >= _EPOCH_MILLISECONDS_FROM else number
    if not 0 <= seconds <= _EPOCH_LATEST_SECONDS:
        raise ValueError(f"not a time since 1970: {number!r}")
    return datetime.fromtimestamp(seconds, UTC)
