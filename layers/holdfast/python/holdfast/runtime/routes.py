"""Where the configuration sends alerts: the same for who puts them into an outbox, who tells them, and who deploys both."""

from __future__ import annotations

from holdfast.alerts.route import SLACK, TOPIC, Route, Routes
from holdfast.runtime.config import HoldfastConfig, SlackChannel


def routes_of(config: HoldfastConfig, account: str, region: str) -> Routes:
    """The routes of the alerts of one account and region.

    With neither Slack nor SNS configured, alerts wait for a Slack channel to come.
    """
    slack, sns = config.alerts.slack, config.alerts.sns
    topic = None if sns is None else Route(TOPIC, frozenset(sns.severities))
    if slack is None:
        return Routes(default=SLACK if sns is None else None, topic=topic)
    destinations = {secret: name for name, secret in webhooks_of(config, account, region).items()}
    channels = tuple(
        Route(
            destinations[channel.webhook_secret_name],
            frozenset(channel.severities),
            None if channel.clusters is None else frozenset(channel.clusters),
        )
        for channel in _channels(config, account, region)
    )
    return Routes(channels, SLACK, topic)


def webhooks_of(config: HoldfastConfig, account: str, region: str) -> dict[str, str]:
    """The name of the webhook's secret of each Slack destination of an account and region: one for each webhook."""
    slack = config.alerts.slack
    if slack is None:
        return {}
    default = slack.webhook_secret_name
    others = [channel.webhook_secret_name for channel in _channels(config, account, region)]
    return {SLACK: default, **{f"{SLACK}/{secret}": secret for secret in others if secret != default}}


def _channels(config: HoldfastConfig, account: str, region: str) -> list[SlackChannel]:
    """The channels that an alert of the account and region can reach."""
    slack = config.alerts.slack
    here = {cluster.name for cluster in config.clusters_in(account, region)}
    channels = () if slack is None else slack.channels
    return [channel for channel in channels if channel.clusters is None or here & set(channel.clusters)]
