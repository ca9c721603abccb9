"""Whether rules are as deployed: what counts as a difference, since when, and what nobody can say."""

from dataclasses import replace

import pytest

from holdfast.alerts.alert import Severity
from holdfast.errors import Denied, Throttled
from holdfast.interruption.drift import Defect, Difference, Drift, ExpectedRule, compare, drift_alert
from holdfast.ports import RuleTarget, RuleView
from tests.builders import HOME, at
from tests.fakes import FakeRules

QUEUE, LOST = (f"arn:aws:sqs:ap-southeast-1:111122223333:{name}" for name in ("orders", "orders-undelivered"))
PATTERN = {"source": ["aws.ec2"], "detail": {"state": ["stopped", "terminated"]}}
RULE = ExpectedRule("holdfast-orders-state", PATTERN, RuleTarget(QUEUE, LOST), "holdfast-cluster-orders", "orders")
GOOD = RuleView(True, {"detail": {"state": ["stopped", "terminated"]}, "source": ["aws.ec2"]}, (RULE.target,))


def rules(view: RuleView | None = GOOD) -> FakeRules:
    made = FakeRules()
    if view is not None:
        made.views[RULE.name] = view
    return made


def defects(view: RuleView | None) -> set[Defect]:
    return {difference.defect for difference in compare([RULE], rules(view), None, at(0)).differences}


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (GOOD, set()),
        (None, {Defect.ABSENT}),
        (replace(GOOD, enabled=False), {Defect.DISABLED}),
        (replace(GOOD, pattern={"source": ["aws.ec2"]}), {Defect.PATTERN}),
        (replace(GOOD, pattern=None), {Defect.PATTERN}),
        # The order of a list is no part of what a pattern matches, but nobody reorders one by accident.
        (replace(GOOD, pattern={**PATTERN, "detail": {"state": ["terminated", "stopped"]}}), {Defect.PATTERN}),
        (replace(GOOD, targets=()), {Defect.TARGET}),
        (replace(GOOD, targets=(RuleTarget(LOST, None),)), {Defect.TARGET}),
        (replace(GOOD, targets=(RuleTarget(QUEUE, None),)), {Defect.UNDELIVERED}),
        (replace(GOOD, targets=(RuleTarget(LOST, None), RULE.target)), set()),
        (RuleView(False, None, ()), {Defect.DISABLED, Defect.PATTERN, Defect.TARGET}),
    ],
)
def test_a_difference_is_found(view: RuleView | None, expected: set[Defect]):
    assert defects(view) == expected


def test_a_difference_counts_when_it_was_seen_twice_and_keeps_its_beginning():
    broken = rules(replace(GOOD, enabled=False))
    first = compare([RULE], broken, None, at(0))
    second = compare([RULE], broken, first, at(300))

    assert (first.confirmed, first.rules) == ((), 0)
    assert [(item.since, item.confirmed) for item in second.differences] == [(at(0), True)]
    assert second.rules == 1


def test_what_was_mended_is_over_and_what_comes_back_is_new():
    broken = rules(replace(GOOD, enabled=False))
    mended = compare([RULE], rules(), compare([RULE], broken, None, at(0)), at(300))
    again = compare([RULE], broken, mended, at(3900))

    assert mended.differences == ()
    assert [(item.since, item.confirmed) for item in again.differences] == [(at(3900), False)]


@pytest.mark.parametrize("error", [Denied("no events:DescribeRule"), Throttled("slow down")])
def test_what_eventbridge_would_not_tell_is_unknown_and_heals_nothing(error: Denied | Throttled):
    broken = rules(replace(GOOD, enabled=False))
    known = compare([RULE], broken, compare([RULE], broken, None, at(0)), at(300))
    broken.faults.fail("describe", error)
    then = compare([RULE], broken, known, at(3900))

    assert then.unknown == ((RULE.name, str(error)),)
    assert then.differences == known.differences
    assert then.rules == 1


def test_an_unknown_rule_is_never_counted_as_fine():
    silent = rules()
    silent.faults.fail("describe", Denied("no"))

    assert compare([RULE], silent, None, at(0)).rules == 1


OPEN = Difference(RULE.name, Defect.DISABLED, "it is disabled", at(0))


@pytest.mark.parametrize(
    ("drift", "after"),
    [
        (Drift(at(0)), 3600),
        (Drift(at(0), (replace(OPEN, confirmed=True),)), 3600),
        (Drift(at(0), (OPEN,)), 300),
        (Drift(at(0), unknown=(("r", "no"),)), 300),
    ],
)
def test_the_next_comparison_is_due_in_an_hour_or_in_five_minutes_when_something_is_open(drift: Drift, after: float):
    assert (drift.due(at(after - 1)), drift.due(at(after))) == (False, True)


def test_karpenters_rule_pages_and_the_way_out_names_it():
    told = drift_alert(OPEN, RULE, HOME)

    assert (told.severity, told.cluster, told.runbook) == (Severity.PAGE, "orders", "rule-drift")
    assert told.action == "Enable it: aws events enable-rule --region ap-southeast-1 --name holdfast-orders-state"
    assert drift_alert(replace(OPEN, since=at(3600)), RULE, HOME).id != told.id


def test_the_audits_own_rule_warns_and_names_the_stack_to_deploy():
    told = drift_alert(replace(OPEN, defect=Defect.PATTERN), replace(RULE, cluster=None), HOME)

    assert (told.severity, told.cluster) == (Severity.WARNING, None)
    assert "holdfast-cluster-orders" in told.action
