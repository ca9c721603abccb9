"""The fold and the verdict do not depend on the order or the number of deliveries, claim what was seen, and never fail."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.interruption.case import Case, Deletion, Drained, End, Note, fold
from holdfast.interruption.observation import Observation
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.schedule import next_look
from holdfast.interruption.verdict import Judgement, Verdict, judge
from tests.builders import LONG_AFTER, SCOPE, at
from tests.unit.interruption.histories import History, histories

NOW = at(LONG_AFTER)
SKEW = timedelta(seconds=2)


def judged(history: History) -> list[tuple[Case, Judgement]]:
    cases = fold(history.facts, history.observations, SCOPE)
    return [(case, judge(case, NOW, exhausted=next_look(case) is None)) for case in cases]


@settings(max_examples=100)
@given(histories(), st.data())
def test_any_order_any_duplicates_and_any_replay_give_the_same_cases_and_verdicts(
    history: History, data: st.DataObject
):
    delivered = [replace(fact, sent_at=at(index), received_at=at(index)) for index, fact in enumerate(history.facts)]
    again = [replace(fact, sent_at=None) for fact in history.facts if data.draw(st.booleans())]
    replayed = [replace(fact, replay="again") for fact in history.facts if data.draw(st.booleans())]
    looks = [*history.observations, *(look for look in history.observations if data.draw(st.booleans()))]
    shuffled = History(
        tuple(data.draw(st.permutations([*delivered, *again, *replayed]))), tuple(data.draw(st.permutations(looks)))
    )

    assert judged(shuffled) == judged(history)


@settings(max_examples=150)
@given(histories())
def test_every_case_has_its_name_its_sentence_and_its_evidence(history: History):
    cases = judged(history)

    assert bool(cases) is bool(history.facts)
    assert len({case.cycle for case, _ in cases}) == len(cases)
    for case, judgement in cases:
        tells_its_sentence(case, judgement)
        rests_on_evidence(case, judgement, history.observations)
    for case, judgement in judged(replace(history, observations=())):
        assert judgement.verdict in {Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE, Verdict.FOREIGN}, case


def tells_its_sentence(case: Case, judgement: Judgement) -> None:
    assert judgement.reason[0].isupper()
    assert judgement.reason.endswith(".")
    assert "None" not in judgement.reason
    assert judgement.verdict is Verdict.INCONCLUSIVE or judgement.missing == ()
    assert CaseRecord(case, judgement, NOW).same_as(CaseRecord(case, judgement, at(0)))


def rests_on_evidence(case: Case, judgement: Judgement, looks: Sequence[Observation]) -> None:
    match judgement.verdict:
        case Verdict.HANDLED_IN_TIME:
            assert case.deletion is Deletion.IN_TIME
            assert case.drained_at is not None or Note.DRAIN_INFERRED in case.notes
            if case.drained_at is not None:
                assert case.deadline is None or case.drained_at <= case.deadline + SKEW
                assert case.ended_at is None or case.drained_at <= case.ended_at + SKEW
        case Verdict.MISSED:
            assert case.end is End.SERVER
            assert case.deadline is not None
            assert any(untouched_after(case.deadline, look) for look in looks)
        case Verdict.NOT_RECLAIMED:
            assert case.end is End.RUNNING
        case Verdict.UNWARNED:
            assert case.warned_at is None
            assert case.nodepool or case.nodeclaim
        case Verdict.RECLAIMED_BEFORE_DRAIN:
            assert case.end is End.SERVER
            assert case.drained in {Drained.SEEN_FALSE, Drained.UNSEEN}
        case _:
            pass


def untouched_after(deadline: datetime, look: Observation) -> bool:
    """Whether a look proves that the NodeClaim was not deleting after the deadline."""
    view = look.kubernetes
    if view is None:
        return False
    return look.at > deadline if view.deleted_at is None else view.deleted_at > deadline
