"""What happened in the world, for tests of the whole path: events as bodies, and EC2 and the cluster as time passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.interruption.observation import InstanceView
from holdfast.karpenter.nodeclaim import NodeClaim
from tests.builders import OUR, SPOT, USER, at, ec2, message, nodeclaim, pod, queue, state_body, warning_body
from tests.unit.interruption.plant import Plant


@dataclass
class Story:
    """One instance. Seconds from the warning; None for what never happened. `warned` False: no warning was sent.

    `standing`: the cluster shows what there was at the end until `removed`, so that every look sees the same.
    """

    deleted: float | None = 5
    drained: float | None = 50
    ended: float | None = 55
    reason: str = USER
    warned: bool = True
    blocked: bool = False
    instance: str = OUR
    name: str = "one"
    standing: bool = False
    removed: float | None = None
    extra: list[tuple[float, str]] = field(default_factory=list)

    def events(self) -> list[tuple[float, str]]:
        """When each event arrives, and its body."""
        bodies = [(1.0, warning_body(self.instance))] if self.warned else []
        if self.ended is not None:
            bodies += [
                (self.ended + 1, state_body("shutting-down", self.instance, self.ended)),
                (self.ended + 36, state_body("terminated", self.instance, self.ended + 35)),
            ]
        return bodies + self.extra

    def ec2(self, plant: Plant) -> Callable[[], InstanceView | None]:
        def answer() -> InstanceView | None:
            now = plant.clock()
            if self.ended is None or now < at(self.ended):
                return ec2()
            if now > at(self.ended + 3600):
                return None
            name = "shutting-down" if now < at(self.ended + 35) else "terminated"
            return ec2(name, self.reason, transitioned_at=at(self.ended))

        return answer

    def claims(self, plant: Plant) -> list[NodeClaim]:
        now = plant.clock()
        if self.removed is not None and now >= at(self.removed):
            return []
        if (
            not self.standing
            and self.ended is not None
            and now >= at(self.ended + (20 if self.deleted is not None else 240))
        ):
            return []
        deleted = self.deleted if self.deleted is not None and at(self.deleted) <= now else None
        drained = self.drained if self.drained is not None and at(self.drained) <= now else None
        return [nodeclaim(deleted=deleted, drained=drained, instance_id=self.instance, node=f"node-{self.name}")]

    def play(self, plant: Plant) -> None:
        """Puts the story into the plant's world and its events into its queue."""
        stories: list[Story] = plant.__dict__.setdefault("stories", [])
        stories.append(self)
        plant.instances.views[self.instance] = self.ec2(plant)
        plant.clusters.claims["cluster-a"] = lambda: [claim for story in stories for claim in story.claims(plant)]
        held = [pod(do_not_disrupt="true")] if self.blocked else [pod()]
        plant.clusters.bound["cluster-a", f"node-{self.name}"] = lambda: (
            [] if self.drained is not None and plant.clock() >= at(self.drained) else held
        )
        for number, (second, body) in enumerate(self.events()):
            plant.arrive(second, message(body, id=f"{self.name}-{number}", sent=second))


def handled(**fields: object) -> Story:
    """Karpenter drains in time."""
    return Story(**fields)  # type: ignore[arg-type]


def blocked(**fields: object) -> Story:
    """A pod that will not go is still there when EC2 takes the machine."""
    return Story(**{"drained": None, "ended": 121, "reason": SPOT, "blocked": True, **fields})  # type: ignore[arg-type]


def missed(**fields: object) -> Story:
    """Karpenter does nothing."""
    return Story(**{"deleted": None, "drained": None, "ended": 121, "reason": SPOT, **fields})  # type: ignore[arg-type]


def unwarned(**fields: object) -> Story:
    """EC2 takes the machine without a warning."""
    return Story(**{"deleted": None, "drained": None, "ended": 0, "reason": SPOT, "warned": False, **fields})  # type: ignore[arg-type]


def unread(plant: Plant) -> None:
    """Nobody reads Karpenter's queue."""
    plant.queues.views["cluster-a"] = lambda: queue(visible=2 if plant.clock() < at(301) else 0)
