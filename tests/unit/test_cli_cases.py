"""A case's story: every event and every look in words, and nothing unknown that looks like something known."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.interruption.case import Scope, fold
from holdfast.interruption.event import Fact, Home, Kind
from holdfast.interruption.observation import Answer, ClusterView, InstanceView, Observation, QueueView
from holdfast_cli.cases import CASE_KEYS, case_document, offset_text, timeline
from holdfast_cli.evidence import Evidence
from holdfast_cli.judge import inferred, judge_evidence

WARNED = datetime(2026, 9, 1, 4, 10, tzinfo=UTC)
INSTANCE = "i-0a11111111111111a"


def fact(kind: Kind, seconds: float = 0, **changes: object) -> Fact:
    at = WARNED + timedelta(seconds=seconds)
    base = Fact(kind, "111122223333", "ap-southeast-1", INSTANCE, at, f"{kind}-{seconds}")
    return Fact(**{name: getattr(base, name) for name in base.__slots__} | changes)


WARNING = fact(Kind.SPOT_WARNING, action="terminate")


def story(*facts: Fact, looks: tuple[Observation, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    case = fold(facts, looks, Scope(Home("111122223333", "ap-southeast-1"), {}))[-1]
    return [(moment.what, moment.details) for moment in timeline(case, facts, looks)]


def look(**parts: object) -> tuple[str, ...]:
    seen = Observation(INSTANCE, WARNED + timedelta(seconds=20), **parts)  # type: ignore[arg-type]
    return next(details for what, details in story(WARNING, looks=(seen,)) if what == "Holdfast looked")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "+0 s"),
        (-900, "-15 min"),
        (35.4, "+35 s"),
        (599, "+599 s"),
        (600, "+10 min"),
        (7200, "+2.0 h"),
        (7 * 86400, "+7.0 d"),
    ],
)
def test_an_offset_is_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert offset_text(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_event_has_words(kind: Kind) -> None:
    assert story(fact(kind))[0][0]


def test_an_event_tells_what_else_its_source_said() -> None:
    ((what, details), *_) = story(
        fact(
            Kind.SCHEDULED_CHANGE,
            event_code="AWS_EC2_INSTANCE_STOP_SCHEDULED",
            status="upcoming",
            announced=WARNED + timedelta(days=1),
            replay="backfill",
            notes=("version_missing",),
        )
    )
    assert what == "AWS Health scheduled change AWS_EC2_INSTANCE_STOP_SCHEDULED upcoming"
    assert details == (
        "announced for 2026-09-02T04:10:00Z",
        "replayed from the archive (backfill)",
        "read with: version_missing",
    )


def test_a_terminate_call_names_who_made_it() -> None:
    assert story(fact(Kind.TERMINATE_CALL, actor="arn:aws:iam::1:role/x"))[0][0] == (
        "CloudTrail TerminateInstances by arn:aws:iam::1:role/x"
    )


def test_the_end_that_only_ec2_told_is_in_the_story() -> None:
    seen = Observation(
        INSTANCE,
        WARNED + timedelta(seconds=60),
        ec2=InstanceView(Answer.OK, state="shutting-down", transitioned_at=WARNED + timedelta(seconds=35)),
    )
    assert "the instance ended (EC2's StateTransitionReason)" in [what for what, _ in story(WARNING, looks=(seen,))]


def test_what_was_not_asked_is_told_as_not_asked() -> None:
    assert look() == ("EC2: not asked", "Kubernetes: not asked")


def test_what_was_refused_is_told_with_its_reason() -> None:
    assert look(
        ec2=InstanceView(Answer.THROTTLED),
        kubernetes=ClusterView(Answer.DENIED, "needs the verb list on nodeclaims"),
        queue=QueueView(Answer.ERROR, "no route"),
    ) == (
        "EC2: throttled",
        "Kubernetes: denied: needs the verb list on nodeclaims",
        "Karpenter's queue: error: no route",
    )


def test_what_is_not_known_of_an_answer_is_told_as_unknown() -> None:
    assert look(
        ec2=InstanceView(Answer.OK), kubernetes=ClusterView(Answer.OK), queue=QueueView(Answer.OK, visible=3)
    ) == (
        "EC2: state not told",
        "Kubernetes: NodeClaim (no name) not deleting",
        "pods: not known (skipped)",
        "Karpenter's queue: 3 waiting, unknown in flight, unknown in its dead-letter queue, unknown undelivered",
    )


def test_pods_that_could_not_be_named_are_counted() -> None:
    view = ClusterView(Answer.OK, nodeclaim="a", pods_answer=Answer.OK, pods_left=25, blockers_unnamed=5)
    assert look(kubernetes=view)[2:] == ("pods: 25 still to move", "held: 5 more pods")


def test_a_case_in_json_has_the_documented_keys() -> None:
    evidence = Evidence(facts=[WARNING])
    (record,) = judge_evidence(evidence, inferred(evidence, {})).cases
    assert list(case_document(record)) == list(CASE_KEYS)
