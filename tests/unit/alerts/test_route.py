"""An alert goes to one channel, the first that takes it, and to the topic if its severity is published."""

import json
from typing import Any

import pytest

from holdfast.alerts.alert import Severity
from holdfast.alerts.route import Route, Routes
from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.routes import routes_of, webhooks_of
from tests.builders import alert

ACCOUNT, REGION = "111122223333", "eu-central-1"


def cluster(name: str, region: str = REGION) -> dict[str, Any]:
    role = f"arn:aws:iam::{ACCOUNT}:role/{name}"
    return {"name": name, "region": region, "account": ACCOUNT, "karpenter": {"controllerRoleArn": role}}


def config(**alerts: Any) -> HoldfastConfig:
    clusters = [cluster("orders"), cluster("web"), cluster("far", "eu-west-1")]
    return HoldfastConfig.read(json.dumps({"clusters": clusters, "alerts": alerts}))


def channel(secret: str, *severities: str, clusters: list[str] | None = None) -> dict[str, Any]:
    return {"webhookSecretName": secret, "severities": list(severities), "clusters": clusters}


SLACK = {
    "webhookSecretName": "team",
    "channels": [
        channel("orders-team", "page", "warning", "info", clusters=["orders"]),
        channel("oncall", "page"),
        channel("orders-team", "warning"),
    ],
}


@pytest.mark.parametrize(
    ("severity", "about", "where"),
    [
        (Severity.PAGE, "orders", "slack/orders-team"),  # the first that takes it, though the next would too
        (Severity.PAGE, "web", "slack/oncall"),
        (Severity.PAGE, None, "slack/oncall"),
        (Severity.WARNING, "web", "slack/orders-team"),  # two routes to one webhook are one destination
        (Severity.INFO, "web", "slack"),
        (Severity.INFO, None, "slack"),
    ],
)
def test_each_alert_goes_to_exactly_one_channel(severity: Severity, about: str | None, where: str):
    routes = routes_of(config(slack=SLACK), ACCOUNT, REGION)

    assert routes.destinations(alert(severity=severity, cluster=about)) == (where,)


def test_the_topic_takes_its_severities_whatever_the_channel():
    routes = routes_of(config(slack=SLACK, sns={"severities": ["page"]}), ACCOUNT, REGION)

    assert routes.destinations(alert(severity=Severity.PAGE, cluster="web")) == ("slack/oncall", "sns")
    assert routes.destinations(alert(severity=Severity.WARNING)) == ("slack/orders-team",)


def test_sns_alone_needs_no_slack():
    routes = routes_of(config(sns={}), ACCOUNT, REGION)

    assert (routes.destinations(alert(severity=Severity.WARNING)), routes.names) == (("sns",), ("sns",))
    assert routes.destinations(alert(severity=Severity.INFO)) == ()


def test_with_nobody_to_tell_alerts_wait_for_a_slack_channel():
    routes = routes_of(config(), ACCOUNT, REGION)

    assert (routes.destinations(alert()), routes.names) == (("slack",), ("slack",))


def test_one_webhook_is_one_destination_so_that_one_lease_paces_it():
    slack = {**SLACK, "channels": [*SLACK["channels"], channel("team", "info")]}

    assert webhooks_of(config(slack=slack), ACCOUNT, REGION) == {
        "slack": "team",
        "slack/orders-team": "orders-team",
        "slack/oncall": "oncall",
    }
    assert routes_of(config(slack=slack), ACCOUNT, REGION).names == ("slack", "slack/orders-team", "slack/oncall")


def test_a_channel_for_clusters_of_elsewhere_is_none_here():
    slack = {"webhookSecretName": "team", "channels": [channel("far-team", "page", clusters=["far"])]}

    assert webhooks_of(config(slack=slack), ACCOUNT, REGION) == {"slack": "team"}
    assert webhooks_of(config(slack=slack), ACCOUNT, "eu-west-1") == {"slack": "team", "slack/far-team": "far-team"}


def test_a_route_for_clusters_takes_no_alert_about_none():
    route = Route("a", frozenset(Severity), frozenset({"orders"}))

    assert Routes((route,), None).destinations(alert(cluster=None)) == ()
