"""Finding the deployed ledgers: which account and region, which table, whose clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from holdfast.adapters.aws_errors import error_code, translated
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.reports import DynamoReports
from holdfast.errors import NotFound
from holdfast.interruption.case import Scope
from holdfast.ports import InstanceKey
from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.names import state_stack_id
from holdfast.runtime.scope import scope_of
from holdfast_cli.config import DEFAULT_FILE
from holdfast_cli.errors import Mistake
from stacks.config import load

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

DEFAULT_PREFIX = "holdfast"
_TABLE = "AWS::DynamoDB::Table"


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach AWS and what to look for, as given on the command line. None: not given."""

    config: Path | None = None
    profile: str | None = None
    region: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerOf:
    """The ledger of one account and region, and the clusters that are configured there."""

    account: str
    region: str
    table: str
    client: DynamoDBClient
    clusters: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its place, for messages."""
        return f"table {self.table} in account {self.account}, {self.region}"

    def ledger(self) -> DynamoLedger:
        """All rows of an instance."""
        return DynamoLedger(self.client, self.table)

    def reports(self) -> DynamoReports:
        """The cases by cluster and time."""
        return DynamoReports(self.client, self.table)


@dataclass(frozen=True, slots=True)
class Found:
    """The ledgers to read, and the configured places that were left out, in words."""

    ledgers: tuple[LedgerOf, ...]
    left_out: tuple[str, ...] = ()


def configuration(access: Access) -> HoldfastConfig | None:
    """The configuration given, else `holdfast.yaml` where there is one, else None.

    Raises:
        ConfigError: the file has problems.
    """
    if access.config is None and not DEFAULT_FILE.exists():
        return None
    return load(access.config or DEFAULT_FILE)


def all_ledgers(access: Access, *, clusters: Sequence[str] = ()) -> Found:
    """Every ledger that the configuration knows and the credentials reach, or the one whose table was given.

    `clusters` narrows it to those.

    Raises:
        Mistake: what was given does not say which ledger.
        NotFound: there is no stack, so nothing was deployed there.
    """
    config = configuration(access)
    session = session_of(access.profile, access.region)
    if access.table is not None:
        region = _region(session)
        account = account_of(session, region)
        configured = config.clusters_in(account, region) if config is not None else ()
        names = tuple(clusters) or tuple(cluster.name for cluster in configured)
        return Found((LedgerOf(account, region, access.table, _dynamodb(session, region), names),))
    if config is None:
        raise Mistake(
            f"There is no {DEFAULT_FILE} here, so it is not known what was deployed: give --config FILE, or --table NAME."
        )
    _check_clusters(clusters, config)
    account = account_of(session, access.region or config.environments[0][1])
    ledgers: list[LedgerOf] = []
    left_out: list[str] = []
    for home, region in config.environments:
        names = tuple(
            cluster.name for cluster in config.clusters_in(home, region) if not clusters or cluster.name in clusters
        )
        if not names or access.region not in {None, region}:
            continue
        if home != account:
            left_out.append(f"{', '.join(names)} in account {home}, {region}: the credentials are for {account}")
            continue
        ledgers.append(_deployed(session, config.name, home, region, names))
    if not ledgers and left_out:
        raise Mistake(f"Nothing can be read with these credentials: {'; '.join(left_out)}. Use --profile.")
    if not ledgers:
        raise Mistake(f"No configured cluster is in region {access.region}: leave --region out or correct it.")
    return Found(tuple(ledgers), tuple(left_out))


def one_ledger(access: Access, account: str, region: str) -> LedgerOf:
    """The ledger of that account and region.

    Raises:
        NotFound: there is no stack, so nothing was deployed there.
    """
    session = session_of(access.profile, region)
    if access.table is not None:
        return LedgerOf(account, region, access.table, _dynamodb(session, region))
    config = configuration(access)
    return _deployed(session, config.name if config is not None else DEFAULT_PREFIX, account, region, ())


def scope(access: Access, key: InstanceKey) -> Scope | None:
    """The clusters that the configuration counts as ours where the instance is; None when it names none there."""
    config = configuration(access)
    if config is None or not config.clusters_in(key.account, key.region):
        return None
    return scope_of(config, key.account, key.region)


def _check_clusters(clusters: Sequence[str], config: HoldfastConfig) -> None:
    known = [cluster.name for cluster in config.clusters]
    unknown = [name for name in clusters if name not in known]
    if unknown:
        raise Mistake(f"--cluster {unknown[0]}: is not configured. Configured are: {', '.join(known)}.")


def _deployed(session: boto3.Session, prefix: str, account: str, region: str, clusters: tuple[str, ...]) -> LedgerOf:
    table = _table_of(session, region, state_stack_id(prefix, account, region))
    return LedgerOf(account, region, table, _dynamodb(session, region), clusters)


def _table_of(session: boto3.Session, region: str, stack: str) -> str:
    with translated(f"looking up stack {stack}", action="cloudformation:DescribeStackResources", on=stack):
        try:
            answer = session.client(
                "cloudformation", region_name=region, config=client_config()
            ).describe_stack_resources(StackName=stack)
        except ClientError as error:
            if error_code(error) != "ValidationError":
                raise
            raise NotFound(
                f"There is no stack {stack} in {region}: Holdfast is not deployed there, or under another name. Give the "
                "configuration it was deployed with by --config, or the table by --table."
            ) from error
    tables = [
        resource["PhysicalResourceId"]
        for resource in answer["StackResources"]
        if resource["ResourceType"] == _TABLE and "PhysicalResourceId" in resource
    ]
    if len(tables) != 1:
        raise NotFound(f"Stack {stack} has {len(tables)} tables, not one: its deployment is not complete.")
    return str(tables[0])


def session_of(profile: str | None, region: str | None) -> boto3.Session:
    """The AWS settings of this machine.

    Raises:
        Mistake: they cannot be used, as when there is no such profile.
    """
    try:
        return boto3.Session(profile_name=profile, region_name=region)
    except BotoCoreError as error:
        raise Mistake(f"The AWS settings of this machine cannot be used: {error}.") from error


def _region(session: boto3.Session) -> str:
    if session.region_name is None:
        raise Mistake("No AWS region is set: give --region.")
    return session.region_name


def account_of(session: boto3.Session, region: str) -> str:
    """The account that the credentials are for.

    Raises:
        Denied: there are none, or AWS refuses them.
    """
    with translated("asking AWS who you are", action="sts:GetCallerIdentity", on="*"):
        return session.client("sts", region_name=region, config=client_config()).get_caller_identity()["Account"]


def _dynamodb(session: boto3.Session, region: str) -> DynamoDBClient:
    return session.client("dynamodb", region_name=region, config=client_config())


def client_config() -> Config:
    """Time limits and retries for a person who waits."""
    return Config(
        connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 4}, user_agent_extra="holdfast"
    )
