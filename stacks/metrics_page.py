"""Writes docs/metrics.md from the registry and the synthesized alarms: `python -m stacks.metrics_page` (a test compares)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.runtime.metric_names import NAMESPACE, MetricName
from stacks import assembly, example

PAGE_FILE = "docs/metrics.md"

_SERVICES = {
    "interruption_ingest": "Ingest",
    "interruption_judge": "Judge",
    "interruption_sweeper": "Sweeper",
    "alert_notifier": "Notifier",
}
_STACK = re.compile(r"^[a-z]+-")
_MINUTE = 60
_UNITS = ((86_400, "day"), (3_600, "hour"), (_MINUTE, "minute"))
_COMPARED = {
    "GreaterThanThreshold": "above",
    "GreaterThanOrEqualToThreshold": "from",
    "LessThanThreshold": "below",
    "LessThanOrEqualToThreshold": "down to",
}

_INTRODUCTION = """\
<!-- Generated from the stacks by `python -m stacks.metrics_page`. Do not edit. -->

# Metrics

What the functions write into CloudWatch's namespace `{namespace}`, and every alarm with the place in the runbook where it
goes on. One dashboard for each account and region, `<prefix>-<region>`, shows them; the control plane stack's output
`DashboardName` has its name.

A metric is counted in the minute in which its function ran, not at the time of the event it is about.
Dimensions have few values: functions, configured clusters, their NodePools, instance types and zones, verdicts, kinds of
interruption.
An instance is none of them; look for it with `holdfast interruptions show INSTANCE`.
"""

_ABOUT_FACTS = """\
`FactLagSeconds` and `FactsInTime` are about what EC2 tells at once: interruption warnings, rebalance recommendations and
state changes, from the event's own time to the end of the batch that stored it.
AWS Health, CloudTrail and FIS tell late by themselves; replays and second deliveries were measured before.
Their objectives: 95 % within 10 s, 99 % within 60 s.
"""

_ABOUT_CASES = """\
What has a `cluster` is written once for each case, by the run that learnt of it: `Interruptions` by the one that first
knew the cluster, which is minutes before the verdict, the others by the one that stored it as final for the first time.
A run that dies right after storing it leaves them out.
A verdict that is corrected later stays where it was counted, and what a replay of the archive brings is not counted:
the ledger is exact, the metrics are for graphs and alarms.
`cluster` is `none` for instances of no configured cluster and `unknown` where nobody could tell; so are NodePool, type
and zone of an interruption, and `kind` is `unwarned` where nothing announced it.
What is not known of a case is otherwise left out, never written as 0.
An ordinary termination is no interruption, whatever states the instance goes through.

`VerdictSeconds` and `VerdictsInTime` leave out NOT_RECLAIMED, GHOST and INCONCLUSIVE: only the last look, 600 s after the
warning, can give them.
"""

_ABOUT_BUDGETS = """\
An alarm on an error budget divides the bad events of its window by all of them, and that share by the one that the
objective allows: 1 means that the budget is used up in exactly four weeks.
With fewer than three bad events it stays quiet.
It sees what was decided: facts or verdicts that do not come at all are seen by the alarms on queues, functions and overdue
looks.
"""

_ABOUT = {"interruption_ingest": _ABOUT_FACTS, "interruption_judge": _ABOUT_CASES}


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm of a template, as a reader needs it. `metrics` are namespace and name of what it reads."""

    title: str
    metrics: tuple[tuple[str, str], ...]
    fires: str
    urgency: str
    says: str
    anchor: str

    @property
    def link(self) -> str:
        """A link into the runbook."""
        return f"[{self.anchor}](runbook.md#{self.anchor})"


def page(templates: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of `docs/metrics.md`, for the templates of an account and region by the name of their stack."""
    found = {name: list(alarms(template)) for name, template in templates.items()}
    return "\n".join([_INTRODUCTION.format(namespace=NAMESPACE), *_own(found), *_all(found)])


def alarms(template: Mapping[str, Any]) -> Iterator[Alarm]:
    """The alarms of a template, in its order."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            properties = resource["Properties"]
            urgency, _, rest = properties["AlarmDescription"].partition(": ")
            says, _, anchor = rest.partition(" See docs/runbook.md#")
            yield Alarm(
                title=" ".join(resource["Metadata"]["aws:cdk:path"].split("/")[1:-1]),
                metrics=tuple(_read(properties)),
                fires=_fires(properties),
                urgency=urgency,
                says=says,
                anchor=anchor,
            )


def write(root: Path) -> None:
    """Writes the page below `root`, the repository."""
    (root / PAGE_FILE).write_text(page(example.templates()), encoding="utf-8")


def _own(found: Mapping[str, list[Alarm]]) -> Iterator[str]:
    for service, title in _SERVICES.items():
        yield f"## {title}\n"
        yield "| Metric | Unit | Dimensions | Meaning | Alarm |"
        yield "|---|---|---|---|---|"
        for metric in MetricName:
            if metric.service == service:
                dimensions = "<br>".join(", ".join(f"`{name}`" for name in names) for names in metric.dimensions)
                links = [
                    f"{alarm.fires}: {alarm.link}"
                    for each in found.values()
                    for alarm in each
                    if (NAMESPACE, metric.value) in alarm.metrics
                ]
                cells = [f"`{metric}`", metric.unit, dimensions, metric.meaning, "<br>".join(links)]
                yield f"| {' | '.join(cells)} |"
        yield ""
        if service in _ABOUT:
            yield _ABOUT[service]


def _all(found: Mapping[str, list[Alarm]]) -> Iterator[str]:
    yield "## Alarms\n"
    yield (
        "All of them notify the topic in the state stack's output `AlarmTopicArn`. Shown for one cluster with a queue of"
        " Holdfast's, and Slack.\n"
    )
    yield _ABOUT_BUDGETS
    for name, each in found.items():
        if each:
            # Without account, region and cluster, which the example's name ends in.
            yield f"### Stack `{_STACK.sub('<prefix>-', name).partition('-111122223333')[0]}-...`\n"
            yield "| Alarm | Reads | Fires | | Says | Runbook |"
            yield "|---|---|---|---|---|---|"
            for alarm in each:
                reads = "<br>".join(dict.fromkeys(f"{namespace} `{metric}`" for namespace, metric in alarm.metrics))
                yield f"| {alarm.title} | {reads} | {alarm.fires} | {alarm.urgency} | {alarm.says} | {alarm.link} |"
            yield ""


def _read(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "MetricName" in properties:
        yield properties["Namespace"], properties["MetricName"]
    for item in properties.get("Metrics", []):
        if "MetricStat" in item:
            yield item["MetricStat"]["Metric"]["Namespace"], item["MetricStat"]["Metric"]["MetricName"]


def _fires(properties: Mapping[str, Any]) -> str:
    periods, seconds = properties["EvaluationPeriods"], max(_periods(properties))
    within = "" if seconds == _MINUTE else f" within {_words(seconds)}"
    lasting = "" if periods == 1 else f" for {_words(periods * seconds)}"
    silence = ", or without data" if properties["TreatMissingData"] == "breaching" else ""
    return f"{_COMPARED[properties['ComparisonOperator']]} {properties['Threshold']}{within}{lasting}{silence}"


def _periods(properties: Mapping[str, Any]) -> list[int]:
    """The period of each metric that the alarm reads, in seconds."""
    if "Period" in properties:
        return [properties["Period"]]
    return [item["MetricStat"]["Period"] for item in properties["Metrics"] if "MetricStat" in item]


def _words(seconds: int) -> str:
    unit, name = next((unit, name) for unit, name in _UNITS if seconds % unit == 0)
    return f"{seconds // unit} {name}{'' if seconds == unit else 's'}"


if __name__ == "__main__":
    write(assembly.ROOT)
