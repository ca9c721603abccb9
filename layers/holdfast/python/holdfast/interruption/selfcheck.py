"""What Holdfast watches of itself, once a minute: the canary, the rules that feed it, and how much it has to do.

Each of the three is on its own: an outage that stops one leaves the others. All may run twice at once and stop anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.alerts.alert import NO_ACTION, Alert, Severity
from holdfast.errors import Conflict, HoldfastError
from holdfast.interruption import canary
from holdfast.interruption.drift import Drift, ExpectedRule, compare, drift_alert
from holdfast.interruption.event import Home
from holdfast.interruption.mode import CALM, OPEN_LIMIT, Lag, Mode, Samples, lag_of, mode
from holdfast.ports import Bus, Ledger, Rules, States, Stored, Wakeups
from holdfast.times import format_time

TELL_FOR = timedelta(minutes=10)
"""For so long after something began each sweep puts its alert into the outbox, which keeps the first: a sweep that died
between noting it and telling it loses nothing."""

DUE_WITHIN = timedelta(minutes=15)
"""A case whose next look is further away, such as maintenance in two weeks, is no work now."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What this audit is: where it stands, the prefix of its names, and the rules as they were deployed."""

    home: Home
    prefix: str
    rules: tuple[ExpectedRule, ...]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What is known of Holdfast itself. None is not known: `problems` says why.

    `canary` is what the last canary took, or has taken so far; `drift` counts rules that are not as deployed, or of
    which it is not known; `degraded` is why the audit is in degraded mode, empty when it is not.
    """

    canary: timedelta | None
    drift: int | None
    degraded: str | None
    problems: tuple[str, ...]


def self_check(
    *,
    now: datetime,
    deployment: Deployment,
    ledger: Ledger,
    states: States,
    rules: Rules,
    bus: Bus,
    wakeups: Wakeups,
) -> SelfCheck:
    """Tends the canary, compares the rules when it is time, decides the mode, and has people told what began or ended."""
    problems: list[str] = []
    alerts: list[Alert] = []
    waited: timedelta | None = None
    drift: Drift | None = None
    degraded: str | None = None
    try:
        tended = canary.tend(
            now=now, home=deployment.home, deployment=deployment.prefix, ledger=ledger, states=states, bus=bus
        )
        waited = tended.waited
        problems += tended.problems
    except HoldfastError as error:
        problems.append(f"tending the canary: {error}")
    try:
        drift = _drift(deployment.rules, rules, states, now)
        problems += [f"rule {name} is not known: {reason}" for name, reason in drift.unknown]
        expected = {rule.name: rule for rule in deployment.rules}
        alerts += [
            drift_alert(difference, expected[difference.rule], deployment.home)
            for difference in drift.confirmed
            # A rule that is no longer deployed is forgotten at the next comparison.
            if difference.rule in expected
        ]
    except HoldfastError as error:
        problems.append(f"comparing the rules: {error}")
    try:
        decided = _mode(ledger, states, now, problems)
        degraded = decided.degraded(now) or ""
        alerts += _mode_alerts(decided, deployment.home, now)
    except HoldfastError as error:
        problems.append(f"deciding the mode: {error}")
    _tell(alerts, ledger, wakeups, problems)
    return SelfCheck(waited, None if drift is None else drift.rules, degraded, tuple(problems))


def _drift(expected: Sequence[ExpectedRule], rules: Rules, states: States, now: datetime) -> Drift:
    stored = states.read(Drift)
    if stored is not None and not stored.value.due(now):
        return stored.value
    drift = compare(expected, rules, stored.value if stored is not None else None, now)
    try:
        states.write(drift, version=_version(stored))
    except Conflict:
        # Another sweep compared them too; what it wrote is told, so that one difference has one beginning.
        current = states.read(Drift)
        return drift if current is None else current.value
    return drift


def _mode(ledger: Ledger, states: States, now: datetime, problems: list[str]) -> Mode:
    stored = states.read(Mode)
    told = states.read(Lag)
    open_cases: int | None = None
    try:
        open_cases = ledger.count_open(now + DUE_WITHIN, limit=OPEN_LIMIT + 1)
    except HoldfastError as error:
        problems.append(f"counting open cases: {error}")
    previous = stored.value if stored is not None else None
    lag = lag_of(told.value if told is not None else None, now)
    decided = mode(now, Samples(lag, open_cases), previous)
    if decided.since is None and previous is not None and previous.since is None:
        # Normal mode needs no renewal.
        return previous
    if decided.since is None and previous is None:
        return decided
    try:
        states.write(decided, version=_version(stored))
    except Conflict:
        current = states.read(Mode)
        return decided if current is None else current.value
    return decided


def _mode_alerts(current: Mode, home: Home, now: datetime) -> list[Alert]:
    alerts: list[Alert] = []
    if current.since is not None and now - current.since < TELL_FOR:
        alerts.append(
            _mode_alert(
                home,
                current.since,
                current.since,
                "began",
                Severity.WARNING,
                "The audit is in degraded mode",
                f"So much happens at once that the audit spares the API servers and you: {current.reason}.",
                "Looks leave out the pods of nine nodes in ten, so that some verdicts lack their cause or stay"
                " INCONCLUSIVE, and say so; alerts come in digests. Nothing is lost.",
                "Look at what interrupts so many nodes. It ends by itself.",
            )
        )
    if current.began_at is not None and current.ended_at is not None and now - current.ended_at < TELL_FOR:
        minutes = (current.ended_at - current.began_at) / timedelta(minutes=1)
        alerts.append(
            _mode_alert(
                home,
                current.began_at,
                current.ended_at,
                "ended",
                Severity.INFO,
                "The audit is back in normal mode",
                f"Degraded mode ended after {minutes:.0f} minutes, the last {CALM.seconds // 60} of them calm.",
                "Looks read the pods of all interrupted nodes again.",
                NO_ACTION,
            )
        )
    return alerts


def _mode_alert(
    home: Home,
    began_at: datetime,
    at: datetime,
    event: str,
    severity: Severity,
    title: str,
    what: str,
    meaning: str,
    action: str,
) -> Alert:
    return Alert(
        id=f"degraded/{home.account}/{home.region}/{format_time(began_at)}/{event}",
        severity=severity,
        title=title,
        what=what,
        meaning=meaning,
        action=action,
        at=at,
        fields=(("Account", home.account), ("Region", home.region), ("Began", format_time(began_at))),
        subject=f"{home.account}/{home.region}",
        group=("degraded mode", event),
        runbook="degraded-mode",
        source=f"mode {home.account}/{home.region}",
    )


def _tell(alerts: Sequence[Alert], ledger: Ledger, wakeups: Wakeups, problems: list[str]) -> None:
    told: list[str] = []
    try:
        told += [alert.id for alert in alerts if ledger.put_alert(alert)]
    except HoldfastError as error:
        problems.append(f"putting an alert into the outbox: {error}; the next sweep will")
    try:
        if told:
            wakeups.wake(told)
    except HoldfastError as error:
        problems.append(f"waking the notifier: {error}; the next sweep will")


def _version[T](stored: Stored[T] | None) -> int:
    return 0 if stored is None else stored.version
