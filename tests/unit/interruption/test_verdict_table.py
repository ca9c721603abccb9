"""The decision table, cell by cell.

Derived from the rules and not from the code: Karpenter has to delete the NodeClaim by the deadline D and the drain has
to be over by D. A cell has a verdict when every history that leaves this evidence deserves it, and is INCONCLUSIVE
when two different ones fit. The letters:

H handled in time · F forced · L late · R reclaimed before the drain was over · M missed · N not reclaimed
S superseded · ? inconclusive

The ends are, in this order: controller, other client, server, running, unknown.
"""

from collections import Counter
from itertools import product

import pytest

from holdfast.interruption.case import Deletion, Drained, End
from holdfast.interruption.verdict import TABLE, Verdict

LETTERS = {
    "H": Verdict.HANDLED_IN_TIME,
    "F": Verdict.HANDLED_FORCED,
    "L": Verdict.HANDLED_LATE,
    "R": Verdict.RECLAIMED_BEFORE_DRAIN,
    "M": Verdict.MISSED,
    "N": Verdict.NOT_RECLAIMED,
    "S": Verdict.SUPERSEDED,
    "?": Verdict.INCONCLUSIVE,
}
ENDS = (End.CONTROLLER, End.OTHER_CLIENT, End.SERVER, End.RUNNING, End.UNKNOWN)

ROWS: dict[tuple[Deletion, Drained], str] = {
    # Karpenter was removing the node before the warning came: the warning says nothing about it, whatever followed.
    (Deletion.BEFORE_WARNING, Drained.IN_TIME): "SSSSS",
    (Deletion.BEFORE_WARNING, Drained.LATE): "SSSSS",
    (Deletion.BEFORE_WARNING, Drained.SEEN_FALSE): "SSSSS",
    (Deletion.BEFORE_WARNING, Drained.UNSEEN): "SSSSS",
    # Begun and drained by D: handled, whoever ended the machine afterwards, and whether or not anybody did.
    (Deletion.IN_TIME, Drained.IN_TIME): "HHHHH",
    # Drained after D on a machine that was still there. Of an unknown end EC2 may have been the author, before the drain.
    (Deletion.IN_TIME, Drained.LATE): "LLLL?",
    # Not drained: ended by Karpenter, it cut pods off; by another client, EC2 never got to it; by EC2, it was too slow.
    (Deletion.IN_TIME, Drained.SEEN_FALSE): "FSRN?",
    # No look saw the drain. Ended by Karpenter: drained or forced. By another client: drained (H) or not (S).
    # By EC2: what Karpenter had finished it would have ended itself. Running: drained, late or not at all.
    (Deletion.IN_TIME, Drained.UNSEEN): "??R??",
    # Begun after D, drained before D: no history does that.
    (Deletion.LATE, Drained.IN_TIME): "?????",
    # Begun and drained after D: late, on a machine that outlived D. Of an unknown end EC2 may have come in between.
    (Deletion.LATE, Drained.LATE): "LLLL?",
    # Nothing had begun by D. Ended by Karpenter: late, forced or not. By EC2: as good as missed.
    (Deletion.LATE, Drained.SEEN_FALSE): "LSMN?",
    # The same unseen; still running it may be drained by now (L) or not (N).
    (Deletion.LATE, Drained.UNSEEN): "LSM??",
    # Seen not deleting after D, and yet drained: no history does that.
    (Deletion.NOT_DELETING, Drained.IN_TIME): "?????",
    (Deletion.NOT_DELETING, Drained.LATE): "?????",
    # Seen not deleting after D: EC2 took it, missed; Karpenter ended it, late; it runs, not reclaimed.
    (Deletion.NOT_DELETING, Drained.SEEN_FALSE): "LSMN?",
    (Deletion.NOT_DELETING, Drained.UNSEEN): "LSMN?",
    # Nobody saw whether Karpenter had begun: in time (H, L, F, R), late (L, M), before the warning (S) or never (M, N).
    (Deletion.UNSEEN, Drained.IN_TIME): "?????",
    (Deletion.UNSEEN, Drained.LATE): "?????",
    (Deletion.UNSEEN, Drained.SEEN_FALSE): "?????",
    (Deletion.UNSEEN, Drained.UNSEEN): "?????",
}
CELLS = {
    (deletion, drained, end): LETTERS[letter]
    for (deletion, drained), letters in ROWS.items()
    for end, letter in zip(ENDS, letters, strict=True)
}


def test_the_table_is_total():
    assert set(TABLE) == set(CELLS) == set(product(Deletion, Drained, End))
    assert len(TABLE) == 100


@pytest.mark.parametrize("key", CELLS, ids="-".join)
def test_a_cell_claims_what_its_evidence_proves(key: tuple[Deletion, Drained, End]):
    assert TABLE[key].verdict is CELLS[key]


@pytest.mark.parametrize("key", CELLS, ids="-".join)
def test_a_cell_gives_its_reason_in_a_sentence_that_can_be_continued(key: tuple[Deletion, Drained, End]):
    why = TABLE[key].why

    assert len(why) > 20
    assert not why.endswith((".", " "))


def test_what_was_not_seen_is_never_shown_as_handled():
    handled = {Verdict.HANDLED_IN_TIME, Verdict.HANDLED_FORCED}
    for (deletion, drained, _), cell in TABLE.items():
        if cell.verdict in handled:
            assert deletion is Deletion.IN_TIME
            assert drained in {Drained.IN_TIME, Drained.SEEN_FALSE}


def test_missed_needs_a_look_that_saw_nothing_begun():
    missed = {deletion for (deletion, _, _), cell in TABLE.items() if cell.verdict is Verdict.MISSED}

    assert missed == {Deletion.LATE, Deletion.NOT_DELETING}


def test_an_unknown_end_proves_a_verdict_only_where_the_end_does_not_matter():
    for (deletion, drained, end), cell in TABLE.items():
        if end is End.UNKNOWN and cell.verdict is not Verdict.INCONCLUSIVE:
            assert {TABLE[deletion, drained, other].verdict for other in End} == {cell.verdict}


def test_the_table_is_no_blanket():
    counted = Counter(cell.verdict for cell in TABLE.values())

    assert set(counted) == set(LETTERS.values())
    assert sum(counted.values()) - counted[Verdict.INCONCLUSIVE] == sum(
        letter != "?" for letters in ROWS.values() for letter in letters
    )
