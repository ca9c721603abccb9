"""The events that EC2 puts on the default bus when it takes a Spot instance, as EventBridge hands them on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

type Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ec2Events:
    """Event bodies of one account and region. The same call gives the same id: what is sent again is a duplicate."""

    account: str
    region: str

    def of_interruption(self, instance_id: str, warned_at: datetime, ended_at: datetime) -> list[Event]:
        """Four events: a recommendation nine minutes ahead, the warning, and the two states of the end."""
        named = {"instance-id": instance_id}
        state = "EC2 Instance State-change Notification"
        warning = {**named, "instance-action": "terminate"}
        return [
            self.event(instance_id, "EC2 Instance Rebalance Recommendation", warned_at - timedelta(minutes=9), named),
            self.event(instance_id, "EC2 Spot Instance Interruption Warning", warned_at, warning),
            self.event(instance_id, state, ended_at, {**named, "state": "shutting-down"}),
            self.event(instance_id, state, ended_at + timedelta(seconds=38), {**named, "state": "terminated"}),
        ]

    def event(self, subject: object, detail_type: str, at: datetime, detail: Mapping[str, Any]) -> Event:
        """One event of EC2's; `subject` makes the ids of events differ that are alike otherwise."""
        time = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{subject}/{detail_type}/{time}/{sorted(detail.items())}"
        resources = []
        if "instance-id" in detail:
            resources = [f"arn:aws:ec2:{self.region}:{self.account}:instance/{detail['instance-id']}"]
        return {
            "version": "0",
            "id": str(uuid5(NAMESPACE_URL, name)),
            "detail-type": detail_type,
            "source": "aws.ec2",
            "account": self.account,
            "time": time,
            "region": self.region,
            "resources": resources,
            "detail": dict(detail),
        }
