"""What the functions are made of: their settings, the deployed configuration and the adapters, made once and lazily.

The functions that talk to Kubernetes or Slack are wired in modules of their own, so that the others do not import those
clients at their cold start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from holdfast.adapters import clients
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.ec2 import Ec2Instances
from holdfast.adapters.events import EventBridge
from holdfast.adapters.outbox import DynamoOutboxes
from holdfast.adapters.sqs import SqsLooks
from holdfast.adapters.states import DynamoStates
from holdfast.adapters.wakeups import SqsWakeups
from holdfast.interruption.case import Scope
from holdfast.interruption.event import Home
from holdfast.interruption.selfcheck import Deployment
from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.deployed_rules import deployed_rules
from holdfast.runtime.routes import routes_of
from holdfast.runtime.scope import configuration, scope_of
from holdfast.runtime.settings import IngestSettings, SweeperSettings, parse_look_queues


@dataclass(frozen=True, slots=True)
class Ingest:
    """What interruption_ingest works with."""

    scope: Scope
    ledger: DynamoLedger
    instances: Ec2Instances
    looks: SqsLooks
    wakeups: SqsWakeups
    states: DynamoStates


@dataclass(frozen=True, slots=True)
class Sweeper:
    """What interruption_sweeper works with."""

    ledger: DynamoLedger
    outbox: DynamoOutboxes
    looks: SqsLooks
    wakeups: SqsWakeups
    states: DynamoStates
    rules: EventBridge
    bus: EventBridge
    deployment: Deployment


@cache
def ingest() -> Ingest:
    """The parts of interruption_ingest.

    Raises:
        SettingsError: the environment or the configuration is not what `cdk deploy` makes.
    """
    settings = IngestSettings.from_env(os.environ)
    config = configuration()
    return Ingest(
        scope=scope_of(config, settings.account, settings.region),
        ledger=ledger(settings.table, settings.account, settings.region, config),
        instances=Ec2Instances(clients.ec2(settings.region)),
        looks=look_queues(settings.look_queues, settings.account, settings.region, config),
        wakeups=SqsWakeups(clients.sqs(settings.region), settings.wakeup_queue),
        states=states(settings.table, settings.account, settings.region),
    )


@cache
def sweeper() -> Sweeper:
    """The parts of interruption_sweeper.

    Raises:
        SettingsError: the environment or the configuration is not what `cdk deploy` makes.
    """
    settings = SweeperSettings.from_env(os.environ)
    config = configuration()
    bridge = EventBridge(clients.events(settings.region))
    return Sweeper(
        ledger=ledger(settings.table, settings.account, settings.region, config),
        outbox=DynamoOutboxes(
            clients.dynamodb(settings.region),
            settings.table,
            routes_of(config, settings.account, settings.region).names,
        ),
        looks=look_queues(settings.look_queues, settings.account, settings.region, config),
        wakeups=SqsWakeups(clients.sqs(settings.region), settings.wakeup_queue),
        states=states(settings.table, settings.account, settings.region),
        rules=bridge,
        bus=bridge,
        deployment=Deployment(
            Home(settings.account, settings.region),
            config.name,
            deployed_rules(config, settings.account, settings.region),
        ),
    )


def states(table: str, account: str, region: str) -> DynamoStates:
    """What Holdfast remembers of itself in one account and region."""
    return DynamoStates(clients.dynamodb(region), table, account=account, region=region)


def ledger(table: str, account: str, region: str, config: HoldfastConfig) -> DynamoLedger:
    """The ledger, which keeps its rows as long as the configuration says and puts alerts where it sends them."""
    return DynamoLedger(
        clients.dynamodb(region),
        table,
        fact_days=config.audit.fact_retention_days,
        rejection_days=config.audit.poison_retention_days,
        destinations=routes_of(config, account, region).destinations,
    )


def look_queues(text: str, account: str, region: str, config: HoldfastConfig) -> SqsLooks:
    """The recheck queues: each cluster's is its network's; an instance of no known cluster goes to the first network's.

    Raises:
        SettingsError: a cluster's network has no queue: the stack and the configuration are of different deployments.
    """
    by_network: Mapping[str, str] = parse_look_queues(text)
    by_cluster = {cluster.name: by_network[cluster.network_id] for cluster in config.clusters_in(account, region)}
    return SqsLooks(clients.sqs(region), by_cluster, next(iter(by_network.values())))
