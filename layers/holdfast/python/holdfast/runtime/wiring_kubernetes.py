"""What interruption_judge is made of: the only function that talks to Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from holdfast.adapters import clients
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.ec2 import Ec2Instances
from holdfast.adapters.eks import EksAccess
from holdfast.adapters.kube import KubeClusters
from holdfast.adapters.sqs import QueueNames, SqsLooks, SqsQueues, parse_look
from holdfast.adapters.states import DynamoStates
from holdfast.adapters.wakeups import SqsWakeups
from holdfast.interruption.case import Scope
from holdfast.ports import Look
from holdfast.runtime import names, observability
from holdfast.runtime.config import Cluster
from holdfast.runtime.current_mode import CurrentMode
from holdfast.runtime.scope import configuration, scope_of
from holdfast.runtime.settings import JudgeSettings
from holdfast.runtime.wiring import ledger, look_queues, states


@dataclass(frozen=True, slots=True)
class Judge:
    """What interruption_judge works with."""

    scope: Scope
    ledger: DynamoLedger
    instances: Ec2Instances
    clusters: KubeClusters
    queues: SqsQueues
    looks: SqsLooks
    wakeups: SqsWakeups
    states: DynamoStates
    mode: CurrentMode
    parse_look: Callable[[str], Look]


@cache
def judge() -> Judge:
    """The parts of interruption_judge; it reaches the clusters of its own network only.

    Raises:
        SettingsError: the environment or the configuration is not what `cdk deploy` makes.
    """
    settings = JudgeSettings.from_env(os.environ)
    config = configuration()
    here = [
        cluster
        for cluster in config.clusters_in(settings.account, settings.region)
        if cluster.network_id == settings.network
    ]
    access = EksAccess(clients.eks(settings.region), clients.session(settings.region), settings.region)
    remembered = states(settings.table, settings.account, settings.region)
    return Judge(
        scope=scope_of(config, settings.account, settings.region),
        ledger=ledger(settings.table, settings.account, settings.region, config),
        instances=Ec2Instances(clients.ec2(settings.region)),
        clusters=KubeClusters(access, [cluster.name for cluster in here]),
        queues=SqsQueues(clients.sqs(settings.region), {cluster.name: queue_names(cluster) for cluster in here}),
        looks=look_queues(settings.look_queues, settings.account, settings.region, config),
        wakeups=SqsWakeups(clients.sqs(settings.region), settings.wakeup_queue),
        states=remembered,
        mode=CurrentMode(remembered, observability.logger(JudgeSettings.service)),
        parse_look=parse_look,
    )


def queue_names(cluster: Cluster) -> QueueNames:
    """The names of Karpenter's queue and of its dead-letter queues; of somebody else's queue only what is configured."""
    undelivered = names.target_dlq_name(cluster.queue_name) if cluster.queue is not None else None
    return QueueNames(cluster.queue_name, cluster.dead_letter_queue_name, undelivered)
