"""EventBridge: the rules of the default bus as they are, and the one event that Holdfast sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import THROTTLED, translated
from holdfast.errors import Throttled, Unavailable
from holdfast.ports import RuleTarget, RuleView


class EventBridge:
    """The `Rules` and the `Bus` port, for the default bus of the client's region."""

    def __init__(self, client: Any) -> None:
        """Nothing is called."""
        self._client = client

    @calls("events:DescribeRule", "events:ListTargetsByRule")
    def describe(self, name: str) -> RuleView:
        """The rule and its targets.

        Raises:
            NotFound: there is none of that name.
        """
        with translated(f"reading rule {name}", action="events:DescribeRule", on=f"rule/{name}"):
            rule = self._client.describe_rule(Name=name)
        targets: list[RuleTarget] = []
        with translated(f"listing the targets of rule {name}", action="events:ListTargetsByRule", on=f"rule/{name}"):
            page = self._client.list_targets_by_rule(Rule=name)
            while True:
                targets += [
                    RuleTarget(target["Arn"], target.get("DeadLetterConfig", {}).get("Arn"))
                    for target in page["Targets"]
                ]
                if "NextToken" not in page:
                    break
                page = self._client.list_targets_by_rule(Rule=name, NextToken=page["NextToken"])
        pattern = rule.get("EventPattern")
        return RuleView(
            # ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS is enabled too.
            enabled=rule["State"] != "DISABLED",
            pattern=None if pattern is None else _parsed(pattern),
            targets=tuple(targets),
        )

    @calls("events:PutEvents")
    def send(self, *, source: str, detail_type: str, detail: Mapping[str, str]) -> None:
        """Puts one event on the default bus.

        Raises:
            Unavailable: EventBridge did not take it; sending it again may put it there twice.
        """
        doing = f"sending {detail_type} to the default bus"
        with translated(doing, action="events:PutEvents", on="event-bus/default"):
            answer = self._client.put_events(
                Entries=[{"Source": source, "DetailType": detail_type, "Detail": json.dumps(detail, sort_keys=True)}]
            )
        if answer["FailedEntryCount"]:
            entry = answer["Entries"][0]
            said = f"{doing}: {entry.get('ErrorCode')}: {entry.get('ErrorMessage')}"
            raise Throttled(said) if entry.get("ErrorCode") in THROTTLED else Unavailable(said)


def _parsed(pattern: str) -> object:
    try:
        return json.loads(pattern)
    except ValueError:
        # EventBridge keeps no such pattern; if one comes, it differs from every pattern of ours as the text it is.
        return pattern
