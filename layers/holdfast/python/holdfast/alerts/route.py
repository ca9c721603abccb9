"""Which destinations an alert goes to: one Slack channel at most, and a topic where its severity asks for that."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.alerts.alert import Alert, Severity

SLACK = "slack"
"""The destination of the default Slack channel; another channel's is `slack/` and the name of its webhook's secret."""

TOPIC = "sns"
"""The destination of the SNS topic."""


@dataclass(frozen=True, slots=True)
class Route:
    """The alerts of these severities go to `destination`: those of some clusters, or of any and of none (None)."""

    destination: str
    severities: AbstractSet[Severity]
    clusters: AbstractSet[str] | None = None

    def takes(self, alert: Alert) -> bool:
        """Whether the alert goes this way."""
        return alert.severity in self.severities and (self.clusters is None or alert.cluster in self.clusters)


@dataclass(frozen=True, slots=True)
class Routes:
    """Where alerts go: to the first of the `channels` that takes them, else to `default`; and to the `topic`, if it does.

    The topic is independent of the channels: an alert is told when each of its destinations took it.
    """

    channels: tuple[Route, ...] = ()
    default: str | None = SLACK
    topic: Route | None = None

    def destinations(self, alert: Alert) -> tuple[str, ...]:
        """Where this alert goes; nowhere when there is neither a channel nor a topic for it."""
        channel = next((route.destination for route in self.channels if route.takes(alert)), self.default)
        topic = self.topic.destination if self.topic is not None and self.topic.takes(alert) else None
        return tuple(name for name in (channel, topic) if name is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Every destination there is, each once."""
        topic = None if self.topic is None else self.topic.destination
        found = [self.default, *(route.destination for route in self.channels), topic]
        return tuple(dict.fromkeys(name for name in found if name is not None))
