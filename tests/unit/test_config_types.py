"""Values of the configuration: durations and partitions."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.config_types import Partition, format_duration, parse_duration, partition_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300),
        ("15m", 900),
        ("4h", 14_400),
        ("14d", 1_209_600),
        ("1h30m", 5_400),
        ("1d2h3m4s", 93_784),
        ("0s", 0),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "300", "s", "5 m", "30m1h", "1.5h", "-5m", "5M", "PT5M", "٣s", "5m\n", "1" * 5000 + "s"]
)
def test_anything_else_is_not_a_duration(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(300, "5m"), (5_400, "1h30m"), (90, "1m30s"), (1_209_600, "14d"), (0, "0s")]
)
def test_a_duration_is_written_in_the_units_it_is_read_in(seconds, text):
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(min_value=0, max_value=999_999 * 86_400))
def test_a_written_duration_reads_back_as_itself(seconds):
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("ap-southeast-1", Partition.AWS),
        ("us-east-1", Partition.AWS),
        ("cn-north-1", Partition.AWS_CN),
        ("us-gov-west-1", Partition.AWS_US_GOV),
    ],
)
def test_the_partition_follows_from_the_region(region, partition):
    assert partition_of(region) is partition
