"""The deployed configuration, and what this account and region's audit is responsible for."""

from __future__ import annotations

from functools import cache
from importlib import resources

from holdfast.interruption.case import Cluster, Scope
from holdfast.interruption.event import Home
from holdfast.runtime.config import HoldfastConfig

CONFIG_PACKAGE = "holdfast_config"
CONFIG_FILE = "config.json"


@cache
def configuration() -> HoldfastConfig:
    """The configuration that was resolved at synth, from the config layer.

    Raises:
        SettingsError: the layer is missing or was written by another version.
    """
    return HoldfastConfig.read(resources.files(CONFIG_PACKAGE).joinpath(CONFIG_FILE).read_bytes())


def scope_of(config: HoldfastConfig, account: str, region: str) -> Scope:
    """The clusters of that account and region, with the role whose calls are Karpenter's in each."""
    return Scope(
        Home(account, region),
        {
            cluster.name: Cluster(cluster.name, cluster.karpenter.controller_role_arn)
            for cluster in config.clusters_in(account, region)
        },
    )
