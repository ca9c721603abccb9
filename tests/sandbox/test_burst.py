"""A burst through the deployed product while Slack is down: every event one fact, every case its verdict, told once.

The embedded AWS carries a few dozen events a second on two cores, so the burst is 2,400 deliveries here. 30,000 go
through the handlers in one process (tests/unit/interruption/test_path.py and the benchmarks).
"""

import time
from itertools import pairwise

import pytest

from holdfast.alerts.deliver import RETRY_AFTER
from holdfast_cli.sandbox import demo, tally, up, wave
from holdfast_cli.sandbox.player import Player
from holdfast_cli.sandbox.slack_receiver import SlackFault
from holdfast_cli.sandbox.state import SandboxState

from .conftest import PATIENCE, wait_for

pytestmark = pytest.mark.sandbox

INSTANCES = 500
MISSED = 25
AGAIN = 0.2
"""The share of the events that is delivered twice."""

FIRST = 2000
FOR_EVER = 1_000_000
EVERY = 3.0
"""Seconds between two looks at a table of thousands of rows: the functions need the processor more than we do."""


def test_nothing_of_a_burst_is_lost_or_doubled_though_slack_is_down_all_the_while(whole: SandboxState) -> None:
    slack = up.slack(whole)
    ledger, table = demo.ledger_of(whole), demo.table_of(whole)
    burst = wave.prepare(
        whole,
        first=FIRST,
        nodes=INSTANCES,
        missed=MISSED,
        again=AGAIN,
        warned_at=demo.long_ago(),
    )
    mark = tally.mark(whole)
    slack.inject(SlackFault(status=503, times=2))
    slack.inject(SlackFault(timeout=0, times=FOR_EVER))  # then it does not even answer
    began = time.monotonic()
    try:
        wave.send(whole, burst)
        sent = time.monotonic()

        over: set[str] = set()

        def decided() -> bool:
            alerts = tally.alerts(whole, table, mark.at)
            told_of = {part for alert in alerts for part in alert.id.split("/")} & burst.truths.keys()
            # Karpenter removes what is gone for good; whatever stayed for ten minutes would be told as a ghost.
            wave.over(whole, burst, told_of - over)
            over.update(told_of)
            return len(over) == INSTANCES

        wait_for(decided, "an alert on each case", 3 * PATIENCE, EVERY)
        judged = time.monotonic()
        # Whoever was refused at first has been there again.
        wait_for(
            lambda: len(slack.answers()) - mark.answers >= 2, "Slack is asked, in vain, more than once", PATIENCE, EVERY
        )
        during = tally.look(whole, ledger, table, burst, mark)
    finally:
        slack.clear_faults()
    back = time.monotonic()
    assert during.messages == ()
    assert during.told == 0
    assert len(during.of_wave(burst)) == INSTANCES
    waits = [answer.time for answer in during.refused]
    assert min(later - earlier for earlier, later in pairwise(waits)) >= RETRY_AFTER

    wait_for(
        lambda: all(alert.told_at is not None for alert in tally.alerts(whole, table, mark.at)),
        "every alert is told",
        PATIENCE,
        EVERY,
    )
    told = time.monotonic()

    def reviewed() -> tuple[str, ...]:
        return tally.wrong(tally.look(whole, ledger, table, burst, mark), burst)

    wait_for(lambda: not reviewed(), lambda: f"not as it should be: {reviewed()}", PATIENCE)
    found = tally.look(whole, ledger, table, burst, mark)
    Player(whole).karpenter_reads_its_queue()

    print(
        f"\n{len(burst.deliveries)} deliveries of {burst.distinct} events in {sent - began:.0f} s: {found.facts} facts,"
        f" {found.duplicates} duplicates; {INSTANCES} cases judged in {judged - began:.0f} s,"
        f" {len(found.spared)} of them in degraded mode; Slack refused {len(during.answers)} requests and was back after"
        f" {back - began:.0f} s; {found.told} alerts told in {len(found.messages)} messages {told - back:.0f} s later"
    )
    assert tally.wrong(found, burst) == ()
