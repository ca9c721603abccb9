"""Points in time: read from what others write, written so that they sort."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.table import exact_time
from holdfast.times import format_time, parse_http_date, parse_time

MOMENT = datetime(2026, 9, 1, 4, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-09-01T04:10:00Z", "2026-09-01T04:10:00+00:00", "2026-09-01T06:10:00+02:00", "2026-09-01T04:10:00"),
        *("2026-09-01 04:10:00Z", "20260901T041000Z", 1788235800, 1788235800.0, 1788235800000, "1788235800"),
    ],
)
def test_one_moment_in_many_spellings(text: object):
    assert parse_time(text) == MOMENT
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, -1, 10**400, float("nan"), float("inf"), [], {}, b"x"),
        *("", " ", "soon", "2026-13-01T00:00:00Z", "9" * 400, "٣٤"),
        *("1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "1970-01-01T00:00:00+14:00"),
    ],
)
def test_what_is_no_time_since_1970_is_refused(value: object):
    with pytest.raises(ValueError):
        parse_time(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        1788235800,
        "",
        "soon",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Sat, 05 Sep",
        "Sat, 05 Sep 99999999999999999999 15:10:09 GMT",
    ],
)
def test_what_is_no_date_is_refused(value: object):
    with pytest.raises(ValueError):
        parse_http_date(value)


def test_milliseconds_are_written_only_where_there_are_any():
    assert format_time(MOMENT) == "2026-09-01T04:10:00Z"
    assert format_time(MOMENT + timedelta(milliseconds=5)) == "2026-09-01T04:10:00.005Z"
    assert format_time(MOMENT.astimezone(timezone(timedelta(hours=8)))) == "2026-09-01T04:10:00Z"


DATES = st.datetimes(datetime(1970, 1, 2), datetime(8999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@given(DATES, DATES)
def test_keys_sort_by_time(one: datetime, other: datetime):
    one, other = (moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in (one, other))

    assert (exact_time(one) < exact_time(other)) is (one < other)
    assert parse_time(exact_time(one)) == one
    assert parse_time(format_time(one)) == one


@given(st.text(st.characters()) | st.integers() | st.floats() | st.none())
def test_any_value_is_a_time_or_refused(value: object):
    for parse in (parse_time, parse_http_date):
        try:
            moment = parse(value)
        except ValueError:
            continue
        assert 1970 <= moment.year < 9000
