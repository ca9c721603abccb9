"""The functions of one account and region, and all that only they need."""

from collections.abc import Sequence

from aws_cdk import Environment, Stack
from constructs import Construct

from holdfast.runtime.config import Cluster, HoldfastConfig
from stacks.constructs.alarms import Alarms
from stacks.constructs.python_layers import PythonLayers
from stacks.features.alerts import AlertDelivery
from stacks.features.dashboard import Dashboard
from stacks.features.interruption import InterruptionAudit
from stacks.features.objectives import Objectives
from stacks.state import StateStack


class ControlPlaneStack(Stack):
    """Composes the features. All of it may be deleted and deployed again without harm to Karpenter or to the ledger."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: HoldfastConfig,
        clusters: Sequence[Cluster],
        state: StateStack,
    ) -> None:
        """`clusters` and `state` are those of one account and region."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=state.account, region=state.region),
            description="Holdfast: the interruption audit and its alerts",
        )
        alarms = Alarms(state.alarm_topic)
        layers = PythonLayers(self, "Layers", config=config)
        alerts = AlertDelivery(
            self, "Alerts", config=config, layers=layers, alarms=alarms, ledger=state.ledger, topic=state.alarms
        )
        InterruptionAudit(
            self,
            "Audit",
            config=config,
            clusters=clusters,
            layers=layers,
            alarms=alarms,
            ledger=state.ledger,
            alerts=alerts,
        )
        Objectives(self, "Objectives", config=config, clusters=clusters, alarms=alarms)
        Dashboard(self, "Overview", config=config, clusters=clusters, region=state.region)
