"""When to look at a case. Looks and deadlines derive from event time, so a late look collapses all that are overdue.

Around a Spot deadline this gives looks 0, 20, 60, 110, 135, 300 and 600 s after the warning: the objects of a drained
node vanish seconds after its end, so the drain is visible only in between. Two more show whether workloads that are not
back by then were back in time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.interruption.case import GHOST_AFTER, RUNNING_AFTER, UNTOUCHED, Case
from holdfast.interruption.restoration import Restored

AFTER_WARNING = tuple(timedelta(seconds=seconds) for seconds in (0, 20, 60, 110, 135, 300, 600))
WHILE_NOT_RESTORED = tuple(timedelta(seconds=seconds) for seconds in (170, 180))
"""Further looks while the workloads are not back. A look comes some seconds after its time: the first still falls before the
limit of three minutes, the second never does."""
AFTER_DEADLINE = (timedelta(seconds=15), timedelta(seconds=180), RUNNING_AFTER)
UNWARNED_AFTER = timedelta(minutes=15)
"""How long a warning may come after the end of the instance before the interruption counts as unwarned."""
AFTER_END = (timedelta(seconds=20), timedelta(seconds=300), UNWARNED_AFTER)

AFTER_OUTAGE = tuple(timedelta(minutes=minutes) for minutes in (15, 25, 40))
"""Further looks when the last one found EC2 or Kubernetes silent. EC2 forgets an instance about an hour after its end."""

AFTER_CLOSING = (timedelta(seconds=20), timedelta(seconds=135))
"""Karpenter takes the update that closes a Health notice for a notice: these looks show whether it acted on it."""

AFTER_TERMINATION = (
    GHOST_AFTER,
    timedelta(minutes=40),
    timedelta(hours=3),
    *(timedelta(days=day) for day in range(1, 8)),
)
"""Looks for a NodeClaim that outlives its instance, each further from the one before. After a week nobody looks again:
who has not removed it by then will not do so for us, and the case says that it was there."""


def look_times(case: Case) -> tuple[datetime, ...]:
    """All points in time at which the case should be looked at, ascending; empty when there is nothing to wait for."""
    if case.replay or case.foreign is not None:
        return ()
    times: set[datetime] = set()
    if case.warned_at is not None:
        times |= {case.warned_at + offset for offset in AFTER_WARNING}
        if case.restoration is not None and case.restoration.state is Restored.PENDING:
            times |= {case.warned_at + offset for offset in WHILE_NOT_RESTORED}
        if case.deadline is not None and (case.closed_at is None or case.deletion not in UNTOUCHED):
            times |= {case.deadline + offset for offset in AFTER_DEADLINE}
        if (
            case.ended_at is not None
            and case.ended_at > case.warned_at + AFTER_WARNING[-1]
            and (case.deadline is None or case.ended_at < case.deadline)
        ):
            # The end of a drain that took hours, days before the deadline of a Health notice.
            times |= {case.ended_at + offset for offset in AFTER_END}
    elif (ended_at := case.ended_at or case.evicted_at) is not None:
        times |= {ended_at + offset for offset in AFTER_END}
    if case.closed_at is not None:
        times |= {case.closed_at + offset for offset in AFTER_CLOSING}
    if case.blind and times:
        times |= {max(times) + offset for offset in AFTER_OUTAGE}
    # A deadline announced after the fact is no reason to look into an earlier run of the instance.
    earliest = case.warned_at or min(times, default=None)
    return tuple(sorted(moment for moment in times if earliest is not None and moment >= earliest))


def next_look(case: Case) -> datetime | None:
    """The first look planned for the verdict after the last one made, or None when all have been made."""
    last = case.last_look
    return next((moment for moment in look_times(case) if last is None or moment > last), None)


def next_ghost_look(case: Case) -> datetime | None:
    """The next look for a NodeClaim that should be gone; None when it was last seen gone, never seen, or given up.

    It has nothing to do with the verdict, which may be final. Of an instance that ended and is not known to be
    terminated (the event was lost, or it was stopped) one look finds out.
    """
    if case.replay or case.foreign is not None or not case.nodeclaim_there:
        return None
    since, offsets = case.terminated_at, AFTER_TERMINATION
    if since is None:
        since, offsets = case.ended_at, AFTER_TERMINATION[:1]
    if since is None:
        return None
    times = (since + offset for offset in offsets)
    return next((moment for moment in times if case.last_look is None or moment > case.last_look), None)
