"""The alarms on error budgets: their arithmetic, their windows, and that few events wake nobody."""

from collections.abc import Mapping
from typing import Any

import pytest

from stacks.features.objectives import BURNS, FEWEST
from tests.stacks.templates import Assembly

BUDGETS = ("Facts", "Verdicts", "Handled")


def alarms(assembly: Assembly) -> dict[str, Mapping[str, Any]]:
    """Path below the feature → properties."""
    return {
        item["Metadata"]["aws:cdk:path"].partition("/Objectives/")[2].removesuffix("/Resource"): item["Properties"]
        for _, _, item in assembly.resources("AWS::CloudWatch::Alarm")
        if "/Objectives/" in item["Metadata"]["aws:cdk:path"]
    }


def expression(properties: Mapping[str, Any]) -> str:
    """The one expression of an alarm."""
    (found,) = (item["Expression"] for item in properties["Metrics"] if "Expression" in item)
    return str(found)


def burning(properties: Mapping[str, Any], *, events: int, bad: int) -> bool:
    """Whether the alarm's expression is above its threshold; IF is the one function of metric math in it."""
    value = eval(
        expression(properties),
        {"IF": lambda condition, yes, no: yes if condition else no, "events": events, "good": events - bad},
    )
    return bool(value > properties["Threshold"])


def test_each_cluster_has_its_budgets_its_missed_warnings_and_its_rate(wide: Assembly):
    found = alarms(wide)
    for cluster in ("open", "closed", "adopted"):
        assert {name.partition("/")[2] for name in found if name.startswith(f"{cluster}/")} == {
            "VerdictsFast",
            "VerdictsSlow",
            "HandledFast",
            "HandledSlow",
            "Missed",
            "ManyInterruptions",
        }


def test_a_budget_has_a_fast_alarm_that_pages_and_a_slow_one_that_warns(example: Assembly):
    """Chapter 5 of the Site Reliability Workbook: 14.4 times over an hour, and 1 over three days."""
    found = alarms(example)
    for name, (period, threshold, urgency) in {
        "Fast": (3_600, 14.4, "PAGE"),
        "Slow": (3 * 86_400, 1, "WARNING"),
    }.items():
        budgets = [properties for path, properties in found.items() if path.endswith(name)]
        assert len(budgets) == len(BUDGETS)
        for properties in budgets:
            periods = {item["MetricStat"]["Period"] for item in properties["Metrics"] if "MetricStat" in item}
            assert (periods, properties["Threshold"], properties["EvaluationPeriods"]) == ({period}, threshold, 1)
            assert properties["AlarmDescription"].startswith(f"{urgency}: ")
            assert properties["TreatMissingData"] == "notBreaching"


def test_no_alarm_looks_back_longer_than_cloudwatch_lets_it(wide: Assembly):
    """PutMetricAlarm: period times evaluation periods is at most 604,800 seconds."""
    for properties in alarms(wide).values():
        periods = [item["MetricStat"]["Period"] for item in properties.get("Metrics", []) if "MetricStat" in item]
        for period in periods or [properties["Period"]]:
            assert period * properties["EvaluationPeriods"] <= 604_800


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_page_comes_when_four_weeks_budget_would_be_gone_in_two_days(budget: str, example: Assembly):
    """1 % may be bad, so 14.4 times that is 14.4 %: of 1,000 events 144 are not above it, 145 are."""
    (fast,) = (item for path, item in alarms(example).items() if path.endswith(f"{budget}Fast"))

    assert [burning(fast, events=1_000, bad=bad) for bad in (0, 10, 144, 145)] == [False, False, False, True]


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_warning_comes_when_more_than_the_allowed_share_is_bad(budget: str, example: Assembly):
    (slow,) = (item for path, item in alarms(example).items() if path.endswith(f"{budget}Slow"))

    assert [burning(slow, events=1_000, bad=bad) for bad in (0, 10, 11)] == [False, False, True]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("burn", BURNS, ids=lambda burn: burn.id)
def test_two_bad_events_wake_nobody_however_few_there_were(budget: str, burn: Any, example: Assembly):
    (alarm,) = (item for path, item in alarms(example).items() if path.endswith(f"{budget}{burn.id}"))

    assert FEWEST == 3
    assert [burning(alarm, events=3, bad=bad) for bad in (0, 1, 2, 3)] == [False, False, False, True]


def test_a_second_missed_warning_in_a_week_pages(example: Assembly):
    (missed,) = (item for path, item in alarms(example).items() if path.endswith("Missed"))

    assert missed["MetricName"] == "Verdicts"
    assert {"Name": "verdict", "Value": "MISSED"} in missed["Dimensions"]
    assert (missed["Statistic"], missed["Period"]) == ("Sum", 7 * 86_400)
    assert (missed["ComparisonOperator"], missed["Threshold"]) == ("GreaterThanThreshold", 1)
    assert missed["AlarmDescription"].startswith("PAGE: ")


@pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5055")
@pytest.mark.parametrize(("assembly", "rate"), [("example", 30), ("wide", 12)])
def test_github_runner_5055_many_interruptions_in_ten_minutes_raise_one_alarm(
    assembly: str, rate: int, request: pytest.FixtureRequest
):
    """An alarm notifies when it begins, however long the wave goes on. The metric counts no ordinary termination."""
    made: Assembly = request.getfixturevalue(assembly)
    found = [item for path, item in alarms(made).items() if path.endswith("ManyInterruptions")]

    assert found
    for alarm in found:
        assert (alarm["MetricName"], alarm["Statistic"], alarm["Period"]) == ("Interruptions", "Sum", 600)
        assert {"Name": "kind", "Value": "spot_interrupted"} in alarm["Dimensions"]
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", rate - 1)
        assert alarm["EvaluationPeriods"] == 1
        assert len(alarm["AlarmActions"]) == 1
        assert not alarm.keys() & {"OKActions", "InsufficientDataActions"}
