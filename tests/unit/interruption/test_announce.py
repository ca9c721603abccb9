"""What people are told of a verdict: what happened, what it means, what to do; and what they are spared."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.alerts.alert import Alert, Severity
from holdfast.interruption.announce import alert_of, ghost_alerts, told_mark, workloads_alert_of, workloads_alerts
from holdfast.interruption.observation import Replacement
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restoration, Restored, Shortage
from holdfast.interruption.verdict import Cause, Verdict
from tests.builders import (
    SPOT,
    at,
    case_of,
    ec2,
    ended,
    gone,
    judged,
    kube,
    observation,
    rebalance,
    warning,
)

SILENT = {Verdict.FOREIGN, Verdict.NOT_APPLICABLE}
SEVERITIES = {
    Verdict.HANDLED_IN_TIME: Severity.INFO,
    Verdict.HANDLED_FORCED: Severity.WARNING,
    Verdict.HANDLED_LATE: Severity.WARNING,
    Verdict.RECLAIMED_BEFORE_DRAIN: Severity.PAGE,
    Verdict.MISSED: Severity.PAGE,
    Verdict.UNWARNED: Severity.WARNING,
    Verdict.NOT_RECLAIMED: Severity.INFO,
    Verdict.SUPERSEDED: Severity.INFO,
    Verdict.GHOST: Severity.WARNING,
    Verdict.INCONCLUSIVE: Severity.WARNING,
}
ROWS = (warning(), *ended(121), observation(135, ec2("terminated", SPOT), kube()))


def record(verdict: Verdict, cause: Cause | None = None, *rows, **fields) -> CaseRecord:
    """A final record with that verdict."""
    case = replace(case_of(*(rows or ROWS)), **fields)
    judgement = replace(judged(*(rows or ROWS)), verdict=verdict, cause=cause, final=True)
    return CaseRecord(case, judgement, at(300))


def told(verdict: Verdict, cause: Cause | None = None, *, corrects: bool = False, **fields) -> Alert:
    alert = alert_of(record(verdict, cause, **fields), corrects=corrects)
    assert alert is not None
    return alert


def test_every_verdict_is_told_or_known_to_be_nobodys_business():
    assert set(SEVERITIES) | SILENT == set(Verdict)


@pytest.mark.parametrize("verdict", SEVERITIES)
def test_an_alert_says_what_happened_what_it_means_and_what_to_do(verdict: Verdict):
    alert = told(verdict)

    assert alert.severity is SEVERITIES[verdict]
    for text in (alert.what, alert.meaning, alert.action):
        assert text[0].isupper()
        assert text.endswith(".")
    assert alert.title.startswith("ip-10-0-11-7 ")
    assert alert.title[-1].isalpha()
    assert alert.runbook == verdict.value.lower().replace("_", "-")
    assert alert.at == at(0)
    assert alert.source == "111122223333/ap-southeast-1/i-0a11111111111111a/0"


@pytest.mark.parametrize("verdict", SILENT)
def test_foreign_instances_and_ordinary_ends_are_told_to_nobody(verdict: Verdict):
    assert alert_of(record(verdict), corrects=False) is None


def test_what_may_still_change_is_not_told():
    open_record = record(Verdict.MISSED)
    unsure = replace(open_record, judgement=replace(open_record.judgement, final=False))

    assert alert_of(unsure, corrects=False) is None


@pytest.mark.parametrize("verdict", SEVERITIES)
def test_a_replay_tells_nothing(verdict: Verdict):
    assert alert_of(record(verdict, replay=True), corrects=False) is None


def test_an_end_without_a_warning_and_without_a_known_reason_is_told_to_nobody():
    rows = [*ended(0), observation(20, None, gone())]

    assert alert_of(record(Verdict.INCONCLUSIVE, None, *rows), corrects=False) is None
    assert alert_of(record(Verdict.UNWARNED, None, *rows), corrects=False) is not None


def test_a_case_of_which_no_time_is_known_is_told_to_nobody():
    assert alert_of(record(Verdict.GHOST, None, rebalance(0), rebalance_at=None), corrects=False) is None


CAUSES = [Cause.BLOCKED_BY_PDB, Cause.BLOCKED_BY_DO_NOT_DISRUPT, Cause.LONG_POD_GRACE, Cause.LATE_START]
CAUSES += [Cause.NOT_DELIVERED, Cause.CONSUMER_ABSENT, Cause.UNREADABLE_MESSAGE]
CAUSES += [Cause.QUEUE_BEHIND, Cause.NODECLAIM_TOO_NEW, Cause.MESSAGE_TAKEN]


def test_a_known_cause_says_what_to_do_about_it():
    without = {told(verdict).action for verdict in SEVERITIES}
    actions = {told(Verdict.MISSED, cause).action for cause in CAUSES}

    assert len(actions) == len(CAUSES)
    assert not actions & without


@pytest.mark.parametrize("cause", [Cause.UNKNOWN, Cause.VOLUME_DETACH, Cause.NO_NOTICE_WINDOW])
def test_other_causes_leave_the_verdicts_advice(cause: Cause):
    assert told(Verdict.RECLAIMED_BEFORE_DRAIN, cause).action == told(Verdict.RECLAIMED_BEFORE_DRAIN).action


def test_a_correction_says_so_in_its_title():
    assert told(Verdict.MISSED, corrects=True).title == "Corrected: ip-10-0-11-7 missed by Karpenter"


def test_without_a_node_the_instance_is_named():
    assert told(Verdict.MISSED, node=None).title == "i-0a11111111111111a missed by Karpenter"


def test_the_fields_name_what_is_known_and_leave_out_the_rest():
    assert told(Verdict.MISSED, Cause.CONSUMER_ABSENT).fields == (
        ("Verdict", "MISSED"),
        ("Cause", "CONSUMER_ABSENT"),
        ("Cluster", "cluster-a"),
        ("NodePool", "orders-spot"),
        ("NodeClaim", "orders-spot-4x7kq"),
        ("Instance", "i-0a11111111111111a"),
        ("Type and zone", "c6i.2xlarge ap-southeast-1a"),
        ("Warned", "2026-09-01T04:10:00Z"),
        ("Workload", "not known"),
    )
    unknown = dict.fromkeys(("cluster", "nodepool", "nodeclaim", "instance_type", "zone", "warned_at"))
    unknown["restoration"] = None
    assert told(Verdict.MISSED, **unknown).fields == (("Verdict", "MISSED"), ("Instance", "i-0a11111111111111a"))


def test_an_alert_is_one_per_case_verdict_and_cause():
    ids = {
        told(Verdict.MISSED).id,
        told(Verdict.MISSED, Cause.UNKNOWN).id,
        told(Verdict.UNWARNED).id,
        told(Verdict.MISSED, cycle="2026-09-01T06:10:00Z").id,
    }

    assert len(ids) == 4
    assert told(Verdict.MISSED).id == told(Verdict.MISSED, corrects=True).id


def test_what_the_watch_remembers_tells_runs_and_verdicts_apart():
    assert told_mark(0, record(Verdict.MISSED, Cause.UNKNOWN)) == "0/MISSED/UNKNOWN"
    assert told_mark(1, record(Verdict.UNWARNED)) == "1/UNWARNED/-"


class TestGhosts:
    HERE = (*ROWS, observation(900, None, kube()))
    GONE = (*HERE, observation(2700, None, gone()))

    def told(self, *rows, known: tuple[str, ...] = (), verdict: Verdict = Verdict.MISSED, **fields) -> list[Alert]:
        return [alert for _, alert in ghost_alerts(0, record(verdict, None, *rows, **fields), known)]

    def test_a_ghost_is_told_with_what_it_means_and_what_to_do(self):
        (alert,) = self.told(*self.HERE)

        assert (alert.severity, alert.title) == (Severity.WARNING, "ip-10-0-11-7 NodeClaim outlived its instance")
        assert alert.what == "The NodeClaim was still there 10 minutes after the instance was terminated."
        assert ("Verdict on the drain", "MISSED") in alert.fields
        assert ("Terminated", "2026-09-01T04:12:15Z") in alert.fields
        assert (alert.runbook, alert.at) == ("ghost", at(135))

    def test_its_going_is_good_news_for_those_who_knew_of_it(self):
        (alert,) = self.told(*self.GONE, known=("0/MISSED/-", "ghost/0"))

        assert alert.severity is Severity.INFO
        assert ("Seen gone", "2026-09-01T04:55:00Z") in alert.fields
        assert self.told(*self.GONE) == []

    @pytest.mark.parametrize("rows", [HERE, GONE])
    def test_each_is_told_once(self, rows: tuple):
        marks: list[str] = ["ghost/0"] if rows is self.GONE else []
        marks += [mark for mark, _ in ghost_alerts(0, record(Verdict.MISSED, None, *rows), marks)]

        assert marks[-1] in {"ghost/0", "ghost-gone/0"}
        assert ghost_alerts(0, record(Verdict.MISSED, None, *rows), marks) == ()

    def test_a_verdict_of_that_name_has_told_it_already(self):
        assert self.told(*self.HERE, verdict=Verdict.GHOST) == []
        assert self.told(*self.HERE, known=("0/GHOST/-",), verdict=Verdict.UNWARNED) == []
        assert len(self.told(*self.GONE, known=("0/GHOST/-",), verdict=Verdict.GHOST)) == 1

    def test_it_is_told_before_the_verdict_is_final(self):
        open_record = record(Verdict.MISSED, None, *self.HERE)
        unsure = replace(open_record, judgement=replace(open_record.judgement, final=False))

        assert len(ghost_alerts(0, unsure, ())) == 1

    @pytest.mark.parametrize("fields", [{"replay": True}, {"foreign": "it belongs to account 999999999999"}])
    def test_of_replays_and_foreign_instances_none_is_told(self, fields: dict[str, object]):
        assert self.told(*self.HERE, **fields) == []


@pytest.mark.parametrize(("degraded", "in_digest"), [(None, False), ("more than 1000 cases are open", True)])
def test_what_is_judged_in_degraded_mode_is_told_in_a_digest(degraded: str | None, in_digest: bool):
    alert = alert_of(replace(record(Verdict.MISSED), degraded=degraded), corrects=False)

    assert alert is not None
    assert alert.in_digest is in_digest


class TestWorkloads:
    """The second question is told beside the verdict, and by itself only when the answer is bad."""

    def restoration(self, state: Restored, cause: Shortage | None = None, **fields: Any) -> Restoration:
        return Restoration(state, "Not back 10 minutes after the warning.", cause, **fields)

    def told(self, cause: Shortage = Shortage.UNKNOWN, **fields: Any) -> Alert:
        restoration = self.restoration(Restored.NO_REPLACEMENT, cause, **fields)
        alert = workloads_alert_of(record(Verdict.MISSED, restoration=restoration), now=at(600))
        assert alert is not None
        return alert

    @pytest.mark.parametrize("state", set(Restored) - {Restored.NO_REPLACEMENT})
    def test_only_a_missing_replacement_is_told_by_itself(self, state: Restored):
        found = record(Verdict.MISSED, restoration=self.restoration(state))

        assert workloads_alert_of(found, now=at(600)) is None
        alert = alert_of(found, corrects=False)
        assert alert is not None
        assert alert.fields[-1][0] == "Workload"
        assert alert.fields[-1][1]

    def test_where_it_is_no_question_nothing_is_told(self):
        found = record(Verdict.MISSED, restoration=None)

        assert workloads_alert_of(found, now=at(600)) is None

    def test_it_pages_with_what_happened_and_what_to_do(self):
        alert = self.told()

        assert (alert.severity, alert.runbook, alert.decided_at) == (Severity.PAGE, "no-replacement", at(600))
        assert alert.title == "ip-10-0-11-7 was not replaced: its workloads are not back"
        assert alert.what == "Not back 10 minutes after the warning."
        for text in (alert.meaning, alert.action):
            assert text.endswith(".")

    def test_each_cause_has_its_own_advice(self):
        assert len({self.told(cause).action for cause in Shortage}) == len(Shortage)

    def test_probable_replacements_are_named(self):
        assert ("Probable replacement", "none seen") in self.told().fields
        new = (Replacement("orders-spot-new", at(8), "launched"), Replacement("orders-spot-2", at(9), "created"))
        fields = self.told(replacements=new).fields
        assert ("Probable replacement", "orders-spot-new (launched), orders-spot-2 (created)") in fields
        assert len(fields) <= 10

    def test_it_is_another_alert_than_the_verdicts(self):
        found = record(Verdict.MISSED, restoration=self.restoration(Restored.NO_REPLACEMENT))
        verdict, workloads = alert_of(found, corrects=False), workloads_alert_of(found, now=at(600))

        assert verdict is not None
        assert workloads is not None
        assert verdict.id != workloads.id

    def test_it_is_told_once_whatever_is_learned_of_its_cause(self):
        found = record(Verdict.MISSED, restoration=self.restoration(Restored.NO_REPLACEMENT))
        ((mark, _),) = workloads_alerts(0, found, ("0/MISSED/-",), now=at(600))

        assert not mark.startswith("0/")  # no verdict, that another would correct
        assert workloads_alerts(0, found, ("0/MISSED/-", mark), now=at(900)) == ()
