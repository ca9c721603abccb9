"""Histories of one instance, plausible and not, for tests of rules that hold for all of them."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from holdfast.interruption.event import Fact, Kind
from holdfast.interruption.observation import Answer, BlockerReason, ClusterView, InstanceView, Observation
from tests.builders import (
    CONTROLLER,
    SOMEBODY,
    SPOT,
    USER,
    at,
    blocker,
    ec2,
    fact,
    gone,
    kube,
    notice,
    observation,
    queue,
    rebalance,
    state,
    terminate_call,
    warning,
)

DAY = 24 * 3600
MOMENTS = st.one_of(
    st.integers(-900, 1200),
    st.sampled_from([0, 5, 110, 118, 120, 122, 123, 600, 601, DAY, DAY + 120, 14 * DAY]),
    st.integers(-2 * DAY, 20 * DAY),
)
REPLAYS = st.sampled_from([None, None, None, "backfill"])
NOTES = st.sampled_from([(), (), ("unknown_version",), ("resources_not_a_list",)])
ANSWERS = st.sampled_from(list(Answer))


@dataclass(frozen=True)
class History:
    facts: tuple[Fact, ...]
    observations: tuple[Observation, ...]


def facts() -> st.SearchStrategy[Fact]:
    ids = st.sampled_from(["e-1", "e-2", "e-3", "e-4", "e-5"])
    states = st.sampled_from(["pending", "running", "stopping", "stopped", "shutting-down", "terminated"])
    actions = st.sampled_from(["terminate", "stop", "hibernate", "some-future-action", None])
    return st.one_of(
        st.builds(warning, MOMENTS, actions, replay=REPLAYS, notes=NOTES, event_id=ids),
        st.builds(warning, st.integers(0, 30)),
        st.builds(state, states, MOMENTS, replay=REPLAYS),
        st.builds(state, states, st.integers(0, 200), event_id=ids),
        st.builds(rebalance, MOMENTS, replay=REPLAYS),
        st.builds(
            notice,
            MOMENTS,
            starts=st.none() | MOMENTS,
            status=st.sampled_from(["upcoming", "open", "closed", None]),
            event_arn=st.sampled_from(["arn-1", "arn-2", None]),
        ),
        st.builds(
            fact,
            st.sampled_from([Kind.CAPACITY_WARNING, Kind.UNKNOWN_WARNING]),
            MOMENTS,
            announced=st.none() | MOMENTS.map(at),
        ),
        st.builds(fact, st.sampled_from([Kind.BID_EVICTED, Kind.SPOT_FULFILLED]), MOMENTS),
        st.builds(terminate_call, MOMENTS, st.sampled_from([CONTROLLER, SOMEBODY, None]), event_id=ids),
    )


def instance_views() -> st.SearchStrategy[InstanceView]:
    answered = st.builds(
        ec2,
        st.sampled_from(["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]),
        st.sampled_from([None, USER, SPOT, "Server.ScheduledStop", "Client.InstanceInitiatedShutdown"]),
        launched_at=st.none() | MOMENTS.map(at),
        transitioned_at=st.none() | MOMENTS.map(at),
        spot_status=st.sampled_from(
            [None, "fulfilled", "instance-terminated-by-experiment", "instance-terminated-by-user"]
        ),
        nodepool=st.sampled_from(["orders-spot", "orders-spot", None]),
        cluster=st.sampled_from(["cluster-a", "cluster-a", "cluster-b", "elsewhere", None]),
    )
    return answered | st.builds(InstanceView, ANSWERS.filter(lambda answer: answer is not Answer.OK))


def cluster_views() -> st.SearchStrategy[ClusterView]:
    blockers: st.SearchStrategy[Any] = st.lists(st.builds(blocker, st.sampled_from(list(BlockerReason))), max_size=2)
    found = st.builds(
        kube,
        deleted=st.none() | MOMENTS,
        drained=st.none() | MOMENTS | st.sampled_from(["Unknown", "False"]),
        ends_by=st.none() | MOMENTS,
        grace_period=st.sampled_from([None, 0, 30, 130, 3600, 10**18]),
        longest_grace=st.sampled_from([None, 0, 30, 600, 2**63 - 1]),
        pods_answer=ANSWERS,
        pods_left=st.sampled_from([None, 0, 3]),
        blockers=blockers.map(tuple),
    )
    return st.one_of(found, st.builds(gone), st.builds(ClusterView, ANSWERS.filter(lambda a: a is not Answer.OK)))


def observations() -> st.SearchStrategy[Observation]:
    queues = st.none() | st.builds(queue, st.integers(0, 3), st.none() | st.integers(0, 2))
    return st.builds(observation, MOMENTS, st.none() | instance_views(), st.none() | cluster_views(), queues)


def histories(max_facts: int = 7, max_looks: int = 5) -> st.SearchStrategy[History]:
    return st.builds(
        History,
        st.lists(facts(), max_size=max_facts).map(tuple),
        st.lists(observations(), max_size=max_looks).map(tuple),
    )
