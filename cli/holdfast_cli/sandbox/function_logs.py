"""What the deployed functions have logged: their JSON lines, and the metrics among them."""

import json
from datetime import datetime
from typing import Any

from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.names import control_plane_stack_id
from holdfast_cli.sandbox import aws
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState

_LOG_GROUPS = {
    "interruption_ingest": "AuditIngestLogs",
    "interruption_judge": "AuditJudge",
    "interruption_sweeper": "AuditSweeperLogs",
    "alert_notifier": "AlertsNotifierLogs",
}
"""How the logical ids of the functions' log groups begin, by service."""


def lines(sandbox: SandboxState, service: str, *, since: datetime | None = None) -> list[dict[str, Any]]:
    """The JSON lines of a function, oldest first; a run's lines come when it has ended.

    Raises:
        SandboxError: no such function is deployed.
    """
    logs = aws.client(sandbox, "logs")
    asked: dict[str, Any] = {"logGroupName": physical_id(sandbox, _LOG_GROUPS[service], "AWS::Logs::LogGroup")}
    if since is not None:
        asked["startTime"] = int(since.timestamp() * 1000)
    return [
        json.loads(event["message"])
        for page in logs.get_paginator("filter_log_events").paginate(**asked)
        for event in page["events"]
        if event["message"].startswith("{")
    ]


def total(sandbox: SandboxState, metric: MetricName, *, since: datetime) -> float:
    """The sum of a metric, which CloudWatch would read from the same lines.

    Raises:
        SandboxError: the function that writes it is not deployed.
    """
    found = 0.0
    for line in lines(sandbox, metric.service, since=since):
        value = line.get(metric.value) if "_aws" in line else None
        found += sum(value) if isinstance(value, list) else value or 0
    return found


def physical_id(sandbox: SandboxState, start: str, kind: str) -> str:
    """The physical id of the control plane's only resource of that type whose logical id starts so.

    Raises:
        SandboxError: there is none, or there are several.
    """
    stack = control_plane_stack_id("holdfast", sandbox.account, sandbox.region)
    resources = aws.client(sandbox, "cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    found = [
        str(item["PhysicalResourceId"])
        for item in resources
        if item["LogicalResourceId"].startswith(start) and item["ResourceType"] == kind
    ]
    if len(found) != 1:
        raise SandboxError(f"stack {stack} has {len(found)} {kind} named {start}…, not one: deploy Holdfast again")
    return found[0]
