"""The dashboard shows every cluster and every queue, by metrics that there are."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from holdfast.runtime.metric_names import MetricName
from tests.stacks.templates import Assembly, of_type


def dashboards(assembly: Assembly) -> dict[str, list[Mapping[str, Any]]]:
    """Name → properties of each widget."""
    found = {}
    for _, _, dashboard in assembly.resources("AWS::CloudWatch::Dashboard"):
        properties = dashboard["Properties"]
        body = properties["DashboardBody"]["Fn::Join"][1]
        text = "".join(part if isinstance(part, str) else "filled-in" for part in body)
        found[properties["DashboardName"]] = [widget["properties"] for widget in json.loads(text)["widgets"]]
    return found


def metrics(widgets: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Namespace, name and dimensions of every metric that is named."""
    for widget in widgets:
        for entry in widget.get("metrics", []):
            words = [part for part in entry if isinstance(part, str)]
            if words:
                yield words[0], words[1], dict(zip(words[2::2], words[3::2], strict=True))


def test_there_is_one_dashboard_for_each_account_and_region(wide: Assembly):
    """Its name says the region: the account has all of them side by side."""
    assert set(dashboards(wide)) == {"hf-ap-southeast-1", "hf-cn-north-1", "hf-us-gov-west-1"}


@pytest.mark.parametrize("assembly", ["example", "wide", "silent"])
def test_metrics_of_our_own_are_read_as_they_are_written(assembly: str, request: pytest.FixtureRequest):
    for widgets in dashboards(request.getfixturevalue(assembly)).values():
        own = [(name, dimensions) for namespace, name, dimensions in metrics(widgets) if namespace == "Holdfast"]
        assert own
        for name, dimensions in own:
            metric = MetricName(name)
            assert dimensions["service"] == metric.service
            assert set(dimensions) in [set(each) for each in metric.dimensions]


def test_each_cluster_has_its_verdicts_its_share_and_its_times(wide: Assembly):
    widgets = dashboards(wide)["hf-ap-southeast-1"]
    for cluster in ("open", "closed", "adopted"):
        searches = [
            entry[0]["expression"]
            for widget in widgets
            for entry in widget.get("metrics", [])
            if "SEARCH" in str(entry[0])
        ]
        for name, dimensions in {
            "Verdicts": ("verdict",),
            "Interruptions": ("nodepool,kind", "instance_type", "zone"),
        }.items():
            for last in dimensions:
                found = f"""{{Holdfast,service,cluster,{last}}} MetricName="{name}" cluster="{cluster}\""""
                assert f"SEARCH('{found}', 'Sum', 86400)" in searches
        shown = {name for _, name, dimensions in metrics(widgets) if dimensions.get("cluster") == cluster}
        assert shown == {
            "HandledInTime",
            "ReactionSeconds",
            "DrainSeconds",
            "FirstLookSeconds",
            "VerdictSeconds",
            "VerdictsInTime",
            "Verdicts",
        }


def test_the_dashboard_says_what_it_shows_and_links_the_runbook_where_one_is_configured(
    example: Assembly, wide: Assembly
):
    for assembly, where in ((example, "`docs/runbook.md`"), (wide, "[the runbook](https://git.example/runbook.md)")):
        for widgets in dashboards(assembly).values():
            assert where in widgets[0]["markdown"]


def test_an_unused_budget_is_100_percent_and_twice_the_allowed_share_overspends_it(example: Assembly):
    """Of 300 events 3 may be bad: 0 bad leave 100 %, 3 leave nothing, 6 leave -100 %."""
    ((_, widgets),) = dashboards(example).items()
    budgets = {
        entry[0]["expression"]
        for widget in widgets
        for entry in widget.get("metrics", [])
        if isinstance(entry[0], dict) and "Good" in entry[0].get("expression", "")
    }

    assert len(budgets) == 3
    for expression in budgets:
        plain = re.sub(r"[a-z]+(Good|Events)", r"\1", expression)
        left = [eval(plain, {"Events": 300, "Good": 300 - bad}) for bad in (0, 3, 6)]
        assert left == [100, 0, -100]


@pytest.mark.parametrize("assembly", ["example", "silent"])
def test_every_queue_is_shown_by_age_or_if_it_keeps_what_failed_by_depth(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    queues = {item["Properties"]["QueueName"] for _, _, item in made.resources("AWS::SQS::Queue")}
    aside = {name for name in queues if name.endswith(("-dlq", "-undelivered", "-failed-sweeps"))}
    (widgets,) = dashboards(made).values()
    shown: dict[str, set[str]] = {}
    for namespace, name, dimensions in metrics(widgets):
        if namespace == "AWS/SQS":
            shown.setdefault(name, set()).add(dimensions["QueueName"])

    assert aside
    assert shown == {
        "ApproximateAgeOfOldestMessage": queues - aside,
        "ApproximateNumberOfMessagesVisible": aside,
    }


def test_a_queue_that_was_there_before_is_shown_too(wide: Assembly):
    shown = {
        dimensions["QueueName"]
        for namespace, _, dimensions in metrics(dashboards(wide)["hf-ap-southeast-1"])
        if namespace == "AWS/SQS"
    }

    assert {"theirs", "theirs-dead"} <= shown


def test_the_name_of_the_dashboard_is_in_the_outputs(example: Assembly):
    template = example.template("control-plane")
    (dashboard,) = of_type(template, "AWS::CloudWatch::Dashboard").values()
    (output,) = (item for name, item in template["Outputs"].items() if "DashboardName" in name)

    assert output["Value"] == dashboard["Properties"]["DashboardName"] == "holdfast-ap-southeast-1"
