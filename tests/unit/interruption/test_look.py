"""One look: what is asked, how often, and that every failure becomes an answer."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.adapters.documents import dump
from holdfast.errors import Denied, HoldfastError, InvalidDocument, NotFound, Throttled, Unavailable
from holdfast.interruption.look import MAX_NODES, Request, describe, in_sample, look_at, queue_of
from holdfast.interruption.observation import (
    MAX_BLOCKERS,
    MAX_WORKLOADS,
    Answer,
    Blocker,
    BlockerReason,
    Condition,
    Observation,
    ShortageView,
    WorkloadsView,
    WorkloadView,
)
from holdfast.interruption.workload_look import Following
from holdfast.karpenter.nodeclaim import NodeClaim, StatusCondition
from holdfast.karpenter.nodepool import NodePool
from holdfast.karpenter.workload import WorkloadName
from holdfast.ports import InstanceKey
from tests.builders import (
    ACCOUNT,
    API,
    KEY,
    OUR,
    REGION,
    at,
    budget,
    ec2,
    kube,
    nodeclaim,
    pod,
    queue,
    replicas,
    workloads,
)
from tests.fakes import FakeClusters, FakeInstances, FakeQueues

NODE = ("cluster-a", "ip-10-0-11-7")


class World:
    def __init__(self) -> None:
        self.instances, self.clusters, self.queues = FakeInstances(), FakeClusters(), FakeQueues()
        self.instances.views[OUR] = ec2()
        self.clusters.claims["cluster-a"] = [nodeclaim()]

    def looks(
        self, *requests: Request, seconds: float = 20, elsewhere: tuple[str, ...] = (), degraded: str | None = None
    ) -> list[Observation]:
        found = look_at(
            requests or (Request(KEY),),
            now=at(seconds),
            instances=self.instances,
            clusters=self.clusters,
            queues=self.queues,
            elsewhere=elsewhere,
            degraded=degraded,
        )
        return list(found.values())

    def look(self, *requests: Request, seconds: float = 20, elsewhere: tuple[str, ...] = ()) -> Observation:
        (found,) = self.looks(*requests, seconds=seconds, elsewhere=elsewhere)
        return found


@pytest.fixture
def world() -> World:
    return World()


ERRORS: list[tuple[HoldfastError, Answer]] = [
    (Denied("ec2:DescribeInstances is not allowed"), Answer.DENIED),
    (Throttled("slow down"), Answer.THROTTLED),
    (Unavailable("down"), Answer.ERROR),
    (InvalidDocument("odd"), Answer.ERROR),
]


def test_a_look_writes_down_every_answer(world: World):
    world.queues.views["cluster-a"] = queue(3, 2, 1)

    assert world.look() == Observation(
        instance_id=OUR,
        at=at(20),
        account=ACCOUNT,
        region=REGION,
        ec2=ec2(),
        kubernetes=kube(pods_answer=Answer.OK, pods_left=0, longest_grace=0, bound_after_deletion=0),
        queue=queue(3, 2, 1),
    )


def test_the_nodeclaims_own_words_are_kept(world: World):
    since = StatusCondition("Drained", "Unknown", "Draining", at(6))
    claim = nodeclaim(
        deleted=5,
        termination_at=at(65),
        grace_period=timedelta(seconds=60),
        conditions=(since, StatusCondition("Ready", "True", "Ready", None)),
    )
    world.clusters.claims["cluster-a"] = [claim]

    view = world.look().kubernetes
    assert view is not None
    assert (view.deleted_at, view.termination_at, view.grace_period) == (at(5), at(65), 60)
    assert view.conditions == (Condition("Drained", "Unknown", "Draining", at(6)),)


@pytest.mark.parametrize(("error", "answer"), ERRORS)
def test_a_failure_of_ec2_is_an_answer_and_the_cluster_is_found_by_searching(
    world: World, error: HoldfastError, answer: Answer
):
    world.instances.faults.fail("describe", error)
    seen = world.look()

    assert seen.ec2 is not None
    assert seen.kubernetes is not None
    assert (seen.ec2.answer, seen.ec2.reason) == (answer, str(error))
    assert (seen.kubernetes.answer, seen.kubernetes.cluster) == (Answer.OK, "cluster-a")


@pytest.mark.parametrize(("error", "answer"), [*ERRORS, (NotFound("no CRDs"), Answer.ERROR)])
def test_a_failure_of_the_cluster_is_an_answer_and_no_absence(world: World, error: HoldfastError, answer: Answer):
    world.clusters.faults.fail("nodeclaims", error)
    seen = world.look()

    assert seen.ec2 == ec2()
    assert seen.kubernetes is not None
    assert (seen.kubernetes.answer, seen.kubernetes.reason) == (answer, str(error))


@pytest.mark.parametrize("call", ["pods", "disruption_budgets"])
@pytest.mark.parametrize(("error", "answer"), ERRORS)
def test_a_failure_to_read_the_pods_leaves_them_unknown(world: World, call: str, error: HoldfastError, answer: Answer):
    world.clusters.bound[NODE] = [pod()]
    world.clusters.faults.fail(call, error)
    view = world.look().kubernetes

    assert view is not None
    assert (view.answer, view.pods_answer, view.pods_reason, view.pods_left) == (Answer.OK, answer, str(error), None)


@pytest.mark.parametrize(("error", "answer"), [*ERRORS, (NotFound("no such queue"), Answer.NOT_FOUND)])
def test_a_failure_of_the_queue_is_an_answer(world: World, error: HoldfastError, answer: Answer):
    world.queues.faults.fail("depths", error)
    view = world.look().queue

    assert view is not None
    assert (view.answer, view.reason, view.visible) == (answer, str(error), None)


def test_an_instance_that_no_list_names_is_not_found(world: World):
    world.instances.views.clear()
    world.clusters.claims["cluster-a"] = [nodeclaim(instance_id=None), nodeclaim(instance_id="i-12ab34cd")]
    seen = world.look()

    assert seen.ec2 is not None
    assert seen.kubernetes is not None
    assert (seen.ec2.answer, seen.kubernetes.answer) == (Answer.NOT_FOUND, Answer.NOT_FOUND)


@pytest.mark.report(
    "github-aws-runners/terraform-aws-github-runner/lambdas/functions/termination-watcher/src/termination-warning.ts"
)
def test_terraform_github_runner_describes_every_instance_of_the_answer():
    """terraform-aws-github-runner's watcher read the first reservation only and swallowed errors."""
    names = [f"i-{number:017x}" for number in range(3)]
    instances = FakeInstances()
    instances.views.update({name: ec2(zone=name) for name in names})

    assert describe([*names, OUR], instances) == {
        **{name: ec2(zone=name) for name in names},
        OUR: describe([OUR], FakeInstances())[OUR],
    }
    assert describe([OUR], instances)[OUR].answer is Answer.NOT_FOUND
    assert instances.asked[0] == (*names, OUR)


def requests(number: int, **fields) -> list[Request]:
    return [Request(InstanceKey(ACCOUNT, REGION, f"i-{index:017x}"), **fields) for index in range(number)]


def test_one_batch_asks_for_one_list_per_cluster_and_describes_once(world: World):
    asked = requests(12, cluster="cluster-a")
    world.clusters.claims["cluster-a"] = [
        nodeclaim(instance_id=request.key.instance_id, node=f"node-{index}") for index, request in enumerate(asked)
    ]
    seen = world.looks(*asked)

    assert len(seen) == 12
    assert world.clusters.faults.calls.count("nodeclaims") == 1
    assert world.instances.faults.calls == ["describe"]
    assert world.queues.faults.calls == ["depths"]


def test_of_many_nodes_ten_are_read_and_the_others_say_so(world: World):
    asked = requests(MAX_NODES + 2, cluster="cluster-a")
    world.clusters.claims["cluster-a"] = [
        nodeclaim(instance_id=request.key.instance_id, node=f"node-{index}") for index, request in enumerate(asked)
    ]
    answers = [view.pods_answer for seen in world.looks(*asked) if (view := seen.kubernetes)]

    assert world.clusters.faults.calls.count("pods") == MAX_NODES
    assert answers == [Answer.OK] * MAX_NODES + [Answer.SKIPPED] * 2


def test_the_pods_of_a_node_that_is_drained_or_not_there_are_not_read(world: World):
    for request, claim in [(Request(KEY, drain_over=True), nodeclaim()), (Request(KEY), nodeclaim(node=None))]:
        world.clusters.claims["cluster-a"] = [claim]
        view = world.look(request).kubernetes
        assert view is not None
        assert (view.pods_answer, view.pods_left) == (Answer.SKIPPED, None)
        assert view.pods_reason
    assert "pods" not in world.clusters.faults.calls


class TestWhere:
    def test_ec2s_tag_says_which_cluster_to_ask(self, world: World):
        world.clusters.claims = {"cluster-a": [], "cluster-b": [nodeclaim()]}
        world.instances.views[OUR] = ec2(cluster="cluster-b")
        view = world.look().kubernetes

        assert view is not None
        assert (view.answer, view.cluster) == (Answer.OK, "cluster-b")
        assert world.clusters.faults.calls.count("nodeclaims") == 1

    def test_without_a_tag_every_cluster_is_asked_and_absence_belongs_to_none(self, world: World):
        world.clusters.claims = {"cluster-a": [], "cluster-b": []}
        world.instances.views[OUR] = ec2(cluster=None)
        view = world.look().kubernetes

        assert view is not None
        assert (view.answer, view.cluster) == (Answer.NOT_FOUND, None)

    @pytest.mark.parametrize("broken", [0, 1])
    def test_absence_is_no_answer_while_one_cluster_gave_none(self, world: World, broken: int):
        world.clusters.claims = {"cluster-a": [], "cluster-b": []}
        world.instances.views[OUR] = ec2(cluster=None)
        world.clusters.faults.fail("nodeclaims", *[None] * broken, Unavailable("down"))
        view = world.look().kubernetes

        assert view is not None
        assert view.answer is Answer.ERROR

    @pytest.mark.parametrize("broken", [0, 1])
    def test_a_nodeclaim_found_outranks_a_cluster_that_gave_no_answer(self, world: World, broken: int):
        names = ["cluster-a", "cluster-b"]
        world.clusters.claims = {name: [nodeclaim()] if index != broken else [] for index, name in enumerate(names)}
        world.instances.views[OUR] = ec2(cluster=None)
        world.clusters.faults.fail("nodeclaims", *[None] * broken, Unavailable("down"))
        view = world.look().kubernetes

        assert view is not None
        assert (view.answer, view.cluster) == (Answer.OK, names[1 - broken])

    def test_not_here_says_nothing_about_clusters_that_cannot_be_reached(self, world: World):
        world.clusters.claims["cluster-a"] = []
        world.instances.views[OUR] = ec2(cluster=None)
        view = world.look(elsewhere=("cluster-b",)).kubernetes

        assert view is not None
        assert (view.answer, view.reason) == (Answer.SKIPPED, "not in cluster-a; cluster-b cannot be reached")

    def test_a_cluster_out_of_reach_is_named_and_not_asked(self, world: World):
        seen = world.look(Request(KEY, cluster="cluster-b"), elsewhere=("cluster-b",))

        assert seen.kubernetes is not None
        assert (seen.kubernetes.answer, seen.kubernetes.cluster) == (Answer.SKIPPED, "cluster-b")
        assert (seen.queue, world.clusters.faults.calls) == (None, [])

    def test_a_function_that_reaches_no_cluster_says_so(self, world: World):
        world.clusters.claims.clear()
        world.instances.views[OUR] = ec2(cluster=None)
        view = world.look().kubernetes

        assert view is not None
        assert (view.answer, view.reason) == (Answer.SKIPPED, "this function reaches no cluster")


class TestBlockers:
    def blockers(self, world: World, *pods, seconds: float = 20, deadline: float | None = 120) -> tuple[Blocker, ...]:
        world.clusters.bound[NODE] = pods
        view = world.look(Request(KEY, deadline=None if deadline is None else at(deadline)), seconds=seconds).kubernetes
        assert view is not None
        assert view.pods_answer is Answer.OK
        return view.blockers

    def test_do_not_disrupt_comes_before_a_budget_and_a_budget_before_the_grace(self, world: World):
        world.clusters.budgets["cluster-a"] = [budget(0, {"matchLabels": {"app": "api"}})]
        free = {"app": "web"}
        found = self.blockers(
            world,
            pod("a", do_not_disrupt="true", grace=600),
            pod("b", grace=600),
            pod("c", grace=600, labels=free),
            pod("d", labels=free),
        )

        assert [(item.pod, item.reason) for item in found] == [
            ("a", BlockerReason.DO_NOT_DISRUPT),
            ("b", BlockerReason.PDB),
            ("c", BlockerReason.GRACE_PERIOD),
        ]
        assert found[0] == Blocker(
            "shop", "a", BlockerReason.DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt=true", "ReplicaSet/api-7d9"
        )
        assert found[1].detail == "PodDisruptionBudget api allows 0 disruptions"
        assert found[2].detail == "terminationGracePeriodSeconds 600"

    @pytest.mark.parametrize(
        ("grace", "deleted", "seconds", "held"),
        [
            (100, None, 20, False),  # 100 s are left, and it takes no longer
            (101, None, 20, True),
            (115, 5, 60, False),  # it began to leave at 5 s, and has until 120 s
            (116, 5, 60, True),
            (30, 5, 135, False),  # the deadline is over: it had 115 s
            (30, None, 135, True),
            (30, 100, 135, True),
        ],
    )
    def test_a_grace_is_too_long_for_the_time_from_the_drains_beginning_to_the_deadline(
        self, world: World, grace: int, deleted: float | None, seconds: float, held: bool
    ):
        world.clusters.claims["cluster-a"] = [nodeclaim(deleted=deleted)]

        assert bool(self.blockers(world, pod(grace=grace), seconds=seconds)) is held

    def test_without_a_deadline_no_grace_is_too_long(self, world: World):
        assert self.blockers(world, pod(grace=10**9), deadline=None) == ()

    def test_pods_that_no_drain_moves_are_neither_counted_nor_named(self, world: World):
        world.clusters.bound[NODE] = [
            pod("ds", owner_kind="DaemonSet", do_not_disrupt="true"),
            pod("done", finished=True),
            pod("static", mirror=True),
            pod("stays", tolerates_disruption=True),
            pod("left", grace=45),
        ]
        view = world.look().kubernetes

        assert view is not None
        assert (view.pods_left, view.longest_grace, view.blockers) == (1, 45, ())

    def test_without_pods_no_budgets_are_read(self, world: World):
        world.look()

        assert "disruption_budgets" not in world.clusters.faults.calls

    def test_an_observation_of_the_longest_names_stays_under_16_kb(self, world: World):
        """Kubernetes allows 63 characters in a namespace and 253 in the names of pods and budgets."""
        namespace, selector = "n" * 63, {"matchLabels": {}}
        world.clusters.bound[NODE] = [
            pod("p" * 249 + f"{number:04}", namespace=namespace, owner=f"ReplicaSet/{'r' * 253}")
            for number in range(30)
        ]
        world.clusters.budgets["cluster-a"] = [budget(0, selector, namespace=namespace, name="b" * 253)]
        look = world.look()

        view = look.kubernetes
        assert view is not None
        assert len(view.blockers) + view.blockers_unnamed == 30
        assert len(view.blockers) >= 10
        assert len(dump(look)) < 16 * 1024

    def test_of_many_blockers_twenty_are_named_and_the_others_counted(self, world: World):
        world.clusters.bound[NODE] = [pod(f"pod-{number}", do_not_disrupt="true") for number in range(33)]
        view = world.look().kubernetes

        assert view is not None
        assert (len(view.blockers), view.blockers_unnamed, view.pods_left) == (MAX_BLOCKERS, 13, 33)


class TestWorkloads:
    """What a look finds out about the owners of the pods, and how little it asks for that."""

    def seen(self, world: World, *, seconds: float = 1, **fields: Any) -> WorkloadsView | None:
        request = Request(KEY, cluster="cluster-a", following=Following(at(0), **fields))
        return world.look(request, seconds=seconds).workloads

    def asked(self, world: World) -> list[str]:
        return [
            call for call in world.clusters.faults.calls if call not in {"nodeclaims", "pods", "disruption_budgets"}
        ]

    def test_the_pods_of_the_node_tell_which_workloads_to_follow(self, world: World):
        world.clusters.bound[NODE] = [pod(), pod("api-1"), pod("ds", owner_kind="DaemonSet", owner="DaemonSet/ds")]
        world.clusters.owners["cluster-a"] = [replicas(2), replicas(9, name="web-1", controller="Deployment/web")]

        assert self.seen(world) == workloads(2, here=2, found=True, read=1)
        assert self.asked(world) == ["replicas"]

    def test_replicas_are_dated_by_their_age(self, world: World):
        world.clusters.bound[NODE] = [pod()]
        world.clusters.owners["cluster-a"] = [replicas()]
        world.clusters.age = timedelta(seconds=20)

        assert self.seen(world, seconds=60) == workloads(here=1, found=True, read=40)
        assert self.seen(world, seconds=60, since=at(55)) == workloads(here=1, found=True, read=55)

    def test_evicted_pods_of_a_replicaset_are_counted_while_they_are_ready(self, world: World):
        world.clusters.bound[NODE] = [pod("a", leaving=True, ready=True), pod("b", leaving=True), pod("c", ready=True)]
        world.clusters.owners["cluster-a"] = [replicas(1)]

        assert self.seen(world) == workloads(1, here=3, found=True, leaving=1, read=1)

    def test_a_statefulset_counts_its_evicted_pods_itself(self, world: World):
        fields = {"owner_kind": "StatefulSet", "owner": "StatefulSet/db"}
        world.clusters.bound[NODE] = [pod("db-0", leaving=True, ready=True, **fields)]
        world.clusters.owners["cluster-a"] = [replicas(1, 1, "db", kind="StatefulSet", controller=None)]

        view = self.seen(world)
        assert view is not None
        assert view.workloads == (WorkloadView("StatefulSet", "shop", "db", 1, 1),)

    def test_bare_pods_jobs_and_unknown_owners_are_counted_apart(self, world: World):
        kinds = [(None, None), ("Job", "Job/import"), ("CloneSet", "CloneSet/x"), ("ReplicaSet", "ReplicaSet/gone")]
        world.clusters.bound[NODE] = [
            pod(f"p-{number}", owner_kind=kind, owner=owner) for number, (kind, owner) in enumerate(kinds)
        ]

        view = self.seen(world)
        assert view is not None
        assert (view.workloads, view.ownerless, view.unread, view.here) == ((), 2, 2, 0)

    def test_without_owners_on_the_node_no_owner_is_read(self, world: World):
        world.clusters.bound[NODE] = [pod(owner_kind=None, owner=None)]

        assert self.seen(world) == workloads(workloads=(), here=0, found=True, read=1, ownerless=1)
        assert self.asked(world) == []

    def test_known_workloads_are_looked_up_when_node_and_nodeclaim_are_gone(self, world: World):
        world.clusters.claims["cluster-a"] = []
        world.clusters.owners["cluster-a"] = [replicas(1), replicas(0, 1, "api-new")]
        known = (WorkloadName(*API), WorkloadName("StatefulSet", "shop", "db"))

        view = self.seen(world, seconds=60, workloads=known)
        assert view is not None
        assert (view.found, view.here) == (False, None)
        assert view.workloads == (
            WorkloadView(*API, desired=4, ready=1),
            WorkloadView("StatefulSet", "shop", "db", None, None),
        )
        assert world.clusters.faults.calls == ["nodeclaims", "replicas"]

    def test_where_nothing_tells_which_they_are_nothing_is_read(self, world: World):
        world.clusters.claims["cluster-a"] = []

        assert self.seen(world) is None
        assert world.look(Request(KEY)).workloads is None
        assert self.asked(world) == []

    def test_one_list_is_enough_for_all_instances_of_a_look(self, world: World):
        asked = requests(5, cluster="cluster-a", following=Following(at(0), workloads=(WorkloadName(*API),)))
        world.looks(*asked)

        assert world.clusters.faults.calls == ["nodeclaims", "replicas"]

    @pytest.mark.parametrize(("error", "answer"), ERRORS)
    def test_a_failure_to_read_the_owners_is_an_answer(self, world: World, error: HoldfastError, answer: Answer):
        world.clusters.bound[NODE] = [pod()]
        world.clusters.faults.fail("replicas", error)
        view = self.seen(world)

        assert view is not None
        assert (view.answer, view.reason, view.found, view.workloads) == (answer, str(error), False, ())

    def test_nodeclaims_of_the_pool_from_around_the_warning_are_probable_replacements(self, world: World):
        def claim(name: str, created: float, *conditions: StatusCondition, **fields: Any) -> NodeClaim:
            return nodeclaim(name=name, instance_id=None, created_at=at(created), conditions=conditions, **fields)

        def true(name: str) -> StatusCondition:
            return StatusCondition(name, "True", name, None)

        short = StatusCondition("Launched", "Unknown", "InsufficientCapacityError", None, "no c6i.2xlarge")
        world.clusters.claims["cluster-a"] += [  # type: ignore[operator]
            claim("early", -901),
            claim("ahead", -900, true("Launched"), true("Registered"), true("Initialized")),
            claim("short", 8, short),
            claim("leaves", 9, true("Launched"), deleted=20),
            claim("other-pool", 10, nodepool="orders"),
            claim("last", 600, true("Launched"), true("Registered")),
            claim("late", 601),
        ]
        world.clusters.bound[NODE] = [pod(owner_kind=None)]
        view = self.seen(world, seconds=602)

        assert view is not None
        assert [(item.nodeclaim, item.state) for item in view.replacements] == [
            ("ahead", "initialized"),
            ("short", "created"),
            ("leaves", "deleting"),
            ("last", "registered"),
        ]
        assert view.replacements[1].reason == "InsufficientCapacityError: no c6i.2xlarge"

    def test_of_many_replacements_five_are_named(self, world: World):
        new = [nodeclaim(name=f"new-{number}", instance_id=None, created_at=at(number)) for number in range(7)]
        world.clusters.claims["cluster-a"] += new  # type: ignore[operator]
        view = self.seen(world)

        assert view is not None
        assert (len(view.replacements), view.replacements_unnamed) == (5, 2)

    def test_what_is_short_is_asked_once_for_all_and_only_when_wanted(self, world: World):
        known = (WorkloadName(*API),)
        world.clusters.owners["cluster-a"] = [replicas(1)]
        world.clusters.pools["cluster-a"] = [NodePool("orders-spot", {"cpu": "96"}, {"cpu": "92"})]
        world.clusters.pending["cluster-a"] = [
            pod("api-9", waits_for="0/9 nodes are available"),
            pod("api-8"),
            pod("web-1", owner="ReplicaSet/web-1", waits_for="another"),
        ]
        no_room = StatusCondition("Launched", "False", "InsufficientCapacityError", None)
        world.clusters.claims["cluster-a"] = [
            nodeclaim(name="old", capacity={"cpu": "8"}),
            nodeclaim(name="new", created_at=at(9), conditions=(no_room,)),
        ]
        following = Following(at(0), "orders-spot", workloads=known, shortage=True)
        (first, _) = world.looks(*requests(2, cluster="cluster-a", following=following), seconds=300)

        assert first.workloads is not None
        assert first.workloads.shortage == ShortageView(
            Answer.OK,
            "",
            waiting=2,
            message="0/9 nodes are available",
            limits=("cpu: 92 of 96 used, and the pool's smallest node has 8",),
            refused=("new",),
        )
        assert self.asked(world) == ["replicas", "pending_pods", "nodepools"]

    @pytest.mark.parametrize("call", ["pending_pods", "nodepools"])
    def test_a_failure_to_ask_what_is_short_is_an_answer(self, world: World, call: str):
        world.clusters.faults.fail(call, Denied("no"))
        view = self.seen(world, seconds=300, workloads=(WorkloadName(*API),), shortage=True)

        assert view is not None
        assert view.shortage is not None
        assert (view.answer, view.shortage.answer, view.shortage.limits) == (Answer.OK, Answer.DENIED, None)

    def test_of_many_workloads_twenty_are_followed_and_the_others_counted(self, world: World):
        names = [f"w{number:02}" for number in range(33)]
        world.clusters.bound[NODE] = [pod(name, owner=f"ReplicaSet/{name}") for name in names]
        world.clusters.owners["cluster-a"] = [replicas(name=name, controller=f"Deployment/{name}") for name in names]
        view = self.seen(world)

        assert view is not None
        assert (len(view.workloads), view.workloads_unnamed) == (MAX_WORKLOADS, 13)

    def test_with_the_longest_names_an_observation_stays_under_16_kb(self, world: World):
        # A NodePool's name is a label of its NodeClaims, so it has at most 63 characters.
        namespace, longest = "n" * 63, "r" * 249
        names = [f"{longest}{number:04}" for number in range(30)]
        world.clusters.bound[NODE] = [
            pod(f"{'p' * 249}{number:04}", namespace=namespace, owner=f"ReplicaSet/{name}")
            for number, name in enumerate(names)
        ]
        world.clusters.budgets["cluster-a"] = [budget(0, {}, namespace=namespace, name="b" * 253)]
        world.clusters.owners["cluster-a"] = [
            replicas(name=name, namespace=namespace, controller=f"Deployment/{name}") for name in names
        ]
        world.clusters.pending["cluster-a"] = [
            pod("p", namespace=namespace, owner=f"ReplicaSet/{names[0]}", waits_for="m" * 5000)
        ]
        no_room = StatusCondition("Launched", "False", "InsufficientCapacityError", None, "x" * 5000)
        world.clusters.claims["cluster-a"] += [  # type: ignore[operator]
            nodeclaim(name=f"{'c' * 63}-{number:05}", created_at=at(1), conditions=(no_room,), instance_id=None)
            for number in range(9)
        ]
        limits = {f"example.com/{'l' * 63}{number}": "1" for number in range(9)}
        world.clusters.pools["cluster-a"] = [NodePool("orders-spot", limits, limits)]
        known = tuple(WorkloadName("Deployment", namespace, name) for name in names)
        look = world.look(Request(KEY, following=Following(at(0), workloads=known, shortage=True)), seconds=300)

        assert look.kubernetes is not None
        assert look.workloads is not None
        assert look.workloads.shortage is not None
        assert len(look.workloads.replacements) == 5
        assert len(dump(look)) < 16 * 1024


class TestBoundAfterDeletion:
    @pytest.mark.parametrize(("bound", "count"), [(None, 0), (-60, 0), (7, 0), (7.1, 1), (90, 1)])
    def test_a_pod_that_came_while_the_node_was_drained_is_counted(self, world: World, bound: float | None, count: int):
        """Deleted at 5 s; two seconds later the taint keeps new pods away."""
        world.clusters.claims["cluster-a"] = [nodeclaim(deleted=5)]
        world.clusters.bound[NODE] = [pod(bound_at=None if bound is None else at(bound))]
        view = world.look(seconds=110).kubernetes

        assert view is not None
        assert view.bound_after_deletion == count

    def test_pods_that_no_drain_moves_may_come(self, world: World):
        world.clusters.claims["cluster-a"] = [nodeclaim(deleted=5)]
        world.clusters.bound[NODE] = [pod(bound_at=at(60), owner_kind="DaemonSet")]
        view = world.look(seconds=110).kubernetes

        assert view is not None
        assert view.bound_after_deletion == 0


def test_the_queue_of_a_cluster_is_asked_by_its_name():
    queues = FakeQueues()
    queues.views["cluster-b"] = queue(7)

    assert queue_of("cluster-b", queues) == queue(7)


def test_in_degraded_mode_the_pods_of_one_node_in_ten_are_read_and_every_look_says_so(world: World):
    names = [f"i-{number:017x}" for number in range(200)]
    world.instances.views = {name: ec2() for name in names}
    world.clusters.claims["cluster-a"] = [nodeclaim(instance_id=name, node=f"node-{name}") for name in names]
    why = "the audit queue is 45 s behind"

    looks = world.looks(*(Request(InstanceKey(ACCOUNT, REGION, name)) for name in names), degraded=why)

    unread = [look for look in looks if look.kubernetes and why in look.kubernetes.pods_reason]
    sampled = [look for look in looks if look not in unread]
    assert {look.degraded for look in looks} == {why}
    assert {look.kubernetes.pods_answer for look in unread if look.kubernetes} == {Answer.SKIPPED}
    assert 10 <= len(sampled) <= 30
    # Within the sample the limit for one look holds as ever.
    assert world.clusters.faults.calls.count("pods") == MAX_NODES


def test_the_sample_of_degraded_mode_is_the_same_at_every_look(world: World):
    name = next(name for name in (f"i-{number:017x}" for number in range(100)) if in_sample(name))
    world.instances.views = {name: ec2()}
    world.clusters.claims["cluster-a"] = [nodeclaim(instance_id=name)]
    request = Request(InstanceKey(ACCOUNT, REGION, name))

    for second in (20, 60, 110):
        found = world.looks(request, seconds=second, degraded="why")[0].kubernetes
        assert found is not None
        assert found.pods_answer is Answer.OK
