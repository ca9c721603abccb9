"""What `holdfast doctor` reads of AWS. Each probe reads one thing; what cannot be read is unknown, never fine.

Everything here is a read: describe, get, list. The secret is read to see that it holds a URL, which goes nowhere.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from botocore.exceptions import ClientError

from holdfast.adapters import table
from holdfast.adapters.aws_errors import error_code, translated
from holdfast.adapters.outbox import DynamoOutboxes
from holdfast.adapters.secrets import WebhookSecret
from holdfast.adapters.slack import SlackMessenger
from holdfast.alerts.route import SLACK
from holdfast.errors import Denied, HoldfastError, InvalidDocument, NotFound
from holdfast.ports import DeliveryStatus
from holdfast.runtime import event_patterns, names
from holdfast.runtime.config import AuthenticationMode, Cluster, HoldfastConfig, Queue
from holdfast.runtime.routes import routes_of, webhooks_of
from holdfast.runtime.settings import SweeperSettings
from holdfast_cli import doctor_checks as checks
from holdfast_cli.doctor_checks import Check, RuleSeen, State, Target, Told
from holdfast_cli.ledgers import client_config
from holdfast_cli.redrive_rules import Way, dead_letters_in

if TYPE_CHECKING:
    import boto3

_WORKERS: Final = 8
_METRICS: Final = "Holdfast"
_SWEEPER: Final = "AuditSweeperFunction"


class Clients:
    """boto3's clients of one session, each made once."""

    def __init__(self, session: boto3.Session) -> None:
        """Makes nothing yet."""
        self._session = session
        self._made: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # a session is not made for threads, its clients are

    def get(self, service: str, region: str) -> Any:
        """The client of a service in a region."""
        with self._lock:
            if (service, region) not in self._made:
                make: Any = self._session.client
                self._made[service, region] = make(service, region_name=region, config=client_config())
            return self._made[service, region]


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to look at: `look` reads it and says how it is."""

    place: str
    name: str
    look: Callable[[], Told | None]


class _NotAllowed(HoldfastError):
    """The person may not ask; `action` is what would have to be allowed."""

    def __init__(self, said: str, action: str, on: str) -> None:
        super().__init__(said)
        self.action = action
        self.on = on


@contextmanager
def _asking(action: str, on: str) -> Iterator[None]:
    """AWS calls as errors of ours; a missing permission is the person's here, not a function's."""
    try:
        with translated(f"asking for {on}", action=action, on=on):
            yield
    except Denied as error:
        cause = error.__cause__
        if isinstance(cause, ClientError):
            raise _NotAllowed(error_code(cause), action, on) from error
        raise


def run(probes: Sequence[Probe], *, done: Callable[[], None]) -> list[Check]:
    """Looks at everything, side by side, and gives the checks in the order of the probes; `done` is called after each."""

    def one(probe: Probe) -> Check | None:
        try:
            told = probe.look()
        except _NotAllowed as error:
            told = (State.UNKNOWN, f"not seen: {error}", f"allow yourself {error.action} on {error.on}")
        except Denied as error:
            told = (State.UNKNOWN, f"not seen: {error}", "see to these credentials or permissions")
        except HoldfastError as error:
            told = (State.UNKNOWN, f"not seen: {error}", "try again")
        except (KeyError, TypeError, ValueError) as error:
            # One odd answer must not hide what all the others say.
            told = (
                State.UNKNOWN,
                f"the answer was not understood: {type(error).__name__}: {error}",
                "report it as a defect in Holdfast",
            )
        done()
        return None if told is None else Check(probe.place, probe.name, *told)

    with ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="doctor") as pool:
        return [check for check in pool.map(one, probes) if check is not None]


def who(clients: Clients, region: str) -> tuple[str, str]:
    """The account of the credentials, and the ARN of whoever has them.

    Raises:
        Denied: there are none, or AWS refuses them.
    """
    with translated("asking AWS who you are", action="sts:GetCallerIdentity", on="*"):
        answer = clients.get("sts", region).get_caller_identity()
    return answer["Account"], answer["Arn"]


class Deployed:
    """What CloudFormation made for one stack, read once and only when somebody asks for it."""

    def __init__(self, clients: Clients, region: str, stack: str) -> None:
        """Reads nothing yet."""
        self.stack = stack
        self._clients = clients
        self._region = region
        self._lock = threading.Lock()  # nobody reads while another does
        self._read: Sequence[tuple[str, str, str]] | HoldfastError | None = None

    def physical(self, kind: str, prefix: str) -> str | None:
        """The physical id of the resource of that type whose logical id begins so; None when there is none."""
        return next(
            (
                physical
                for logical, type_, physical in self._resources()
                if type_ == kind and logical.startswith(prefix)
            ),
            None,
        )

    def _resources(self) -> Sequence[tuple[str, str, str]]:
        with self._lock:
            if self._read is None:
                try:
                    self._read = self._ask()
                except HoldfastError as error:
                    self._read = error
            if isinstance(self._read, HoldfastError):
                raise self._read
            return self._read

    def _ask(self) -> Sequence[tuple[str, str, str]]:
        client = self._clients.get("cloudformation", self._region)
        with _asking("cloudformation:ListStackResources", f"stack {self.stack}"):
            try:
                return [
                    (one["LogicalResourceId"], one["ResourceType"], one.get("PhysicalResourceId", ""))
                    for page in client.get_paginator("list_stack_resources").paginate(StackName=self.stack)
                    for one in page["StackResourceSummaries"]
                    if one.get("ResourceStatus") != "DELETE_COMPLETE"
                ]
            except ClientError as error:
                if error_code(error) != "ValidationError":
                    raise
                return ()


@dataclass(frozen=True, slots=True)
class Environment:
    """One account and region, with all clusters that are configured there."""

    clients: Clients
    config: HoldfastConfig
    account: str
    region: str
    now: datetime

    @property
    def place(self) -> str:
        """For the heading."""
        return f"{self.account} {self.region}"

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """All of them, whichever were asked for: they share the audit."""
        return self.config.clusters_in(self.account, self.region)

    def arn(self, service: str, rest: str) -> str:
        """An ARN of this place."""
        return f"arn:{self.clusters[0].partition}:{service}:{self.region}:{self.account}:{rest}"

    # -- reading --

    def stack_status(self, name: str) -> str | None:
        """The status of a stack; None when there is none."""
        with _asking("cloudformation:DescribeStacks", f"stack {name}"):
            try:
                answer = self._client("cloudformation").describe_stacks(StackName=name)
            except ClientError as error:
                if error_code(error) != "ValidationError":
                    raise
                return None
        return str(answer["Stacks"][0]["StackStatus"])

    def rule(self, name: str) -> RuleSeen | None:
        """A rule of the default bus; None when there is none."""
        events = self._client("events")
        try:
            with _asking("events:DescribeRule", f"rule {name}"):
                described = events.describe_rule(Name=name)
            with _asking("events:ListTargetsByRule", f"rule {name}"):
                targets = events.list_targets_by_rule(Rule=name)["Targets"]
        except NotFound:
            return None
        pattern = described.get("EventPattern")
        return RuleSeen(
            name,
            described.get("State") != "DISABLED",
            None if pattern is None else checks.parsed_pattern(pattern),
            tuple(Target(one["Arn"], one.get("DeadLetterConfig", {}).get("Arn")) for one in targets),
        )

    def rules_of(self, queue_arn: str) -> list[RuleSeen]:
        """The rules whose target a queue is."""
        with _asking("events:ListRuleNamesByTarget", queue_arn):
            found = self._client("events").list_rule_names_by_target(TargetArn=queue_arn)["RuleNames"]
        return [seen for seen in map(self.rule, found) if seen is not None]

    def attributes(self, queue: str) -> Mapping[str, str] | None:
        """A queue's attributes; None when there is none. Nothing is received."""
        sqs = self._client("sqs")
        try:
            with _asking("sqs:GetQueueUrl", f"queue {queue}"):
                url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
            with _asking("sqs:GetQueueAttributes", f"queue {queue}"):
                found: Mapping[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        except NotFound:
            return None
        return found

    def metric(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        statistic: Literal["Sum", "Maximum"],
        length: timedelta,
    ) -> float | None:
        """The sum, or the greatest value, of the last so many minutes; None when CloudWatch has no data."""
        with _asking("cloudwatch:GetMetricStatistics", "*"):
            points = self._client("cloudwatch").get_metric_statistics(
                Namespace=namespace,
                MetricName=name,
                Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
                StartTime=self.now - length,
                EndTime=self.now,
                Period=60,
                Statistics=[statistic],
            )["Datapoints"]
        values = [float(point[statistic]) for point in points]
        if not values:
            return None
        return sum(values) if statistic == "Sum" else max(values)

    def function(self, name: str | None) -> Mapping[str, Any] | None:
        """Lambda's configuration of a function; None when there is none."""
        if name is None:
            return None
        try:
            with _asking("lambda:GetFunctionConfiguration", f"function {name}"):
                found: Mapping[str, Any] = self._client("lambda").get_function_configuration(FunctionName=name)
        except NotFound:
            return None
        return found

    def mappings(self, name: str) -> list[tuple[str, str, str | None]]:
        """The event source mappings of a function: source, state and UUID."""
        with _asking("lambda:ListEventSourceMappings", f"function {name}"):
            found = self._client("lambda").list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        return [(one["EventSourceArn"], one["State"], one.get("UUID")) for one in found]

    def table(self, name: str | None) -> Mapping[str, Any] | None:
        """DynamoDB's description of a table; None when there is none."""
        if name is None:
            return None
        try:
            with _asking("dynamodb:DescribeTable", f"table {name}"):
                found: Mapping[str, Any] = self._client("dynamodb").describe_table(TableName=name)["Table"]
        except NotFound:
            return None
        return found

    def oldest_alert(self, table_name: str) -> datetime | None:
        """Since when the oldest alert waits that might have been told."""
        with _asking("dynamodb:Query", f"table {table_name}, index {table.OPEN.name}"):
            destinations = routes_of(self.config, self.account, self.region).names
            return DynamoOutboxes(self._client("dynamodb"), table_name, destinations).oldest(now=self.now)

    def cluster(self, name: str) -> Mapping[str, Any] | None:
        """EKS's description of a cluster; None when there is none."""
        try:
            with _asking("eks:DescribeCluster", f"cluster {name}"):
                found: Mapping[str, Any] = self._client("eks").describe_cluster(name=name)["cluster"]
        except NotFound:
            return None
        return found

    def groups(self, cluster: str, role_arn: str) -> Sequence[str] | None:
        """The Kubernetes groups that a role's access entry gives it; None when it has no entry."""
        try:
            with _asking("eks:DescribeAccessEntry", f"cluster {cluster}"):
                entry = self._client("eks").describe_access_entry(clusterName=cluster, principalArn=role_arn)
        except NotFound:
            return None
        return tuple(entry["accessEntry"].get("kubernetesGroups", ()))

    def _client(self, service: str) -> Any:
        return self.clients.get(service, self.region)


# ---- What to look at ----


def probes(env: Environment, *, clusters: Sequence[Cluster], send_test: bool) -> list[Probe]:
    """Everything to look at in one place, for `clusters` and for what all clusters there share."""
    prefix = env.config.name
    state_stack = names.state_stack_id(prefix, env.account, env.region)
    control_stack = names.control_plane_stack_id(prefix, env.account, env.region)
    state = Deployed(env.clients, env.region, state_stack)
    control = Deployed(env.clients, env.region, control_stack)
    found = [_stack(env, env.place, "stack state", state_stack), _stack(env, env.place, "stack control", control_stack)]
    found += _ledger(env, state)
    found += _audit(env, control)
    found += _functions(env, control)
    found += _slack(env, send_test=send_test)
    for cluster in clusters:
        found += _karpenter(env, cluster)
        found += _kubernetes(env, cluster, control)
    return found


def _stack(env: Environment, place: str, label: str, name: str) -> Probe:
    return Probe(place, label, lambda: checks.stack(name, env.stack_status(name)))


def _ledger(env: Environment, state: Deployed) -> Iterator[Probe]:
    # The logical ids are those of the constructs in the stacks (`stacks.state`).
    def name() -> str | None:
        return state.physical("AWS::DynamoDB::Table", "Ledger")

    def ledger() -> Told:
        found = name()
        return checks.ledger(found, env.table(found), [index.name for index in table.INDEXES], state.stack)

    def outbox() -> Told | None:
        found = name()
        # Without the table the line above says so.
        return None if found is None else checks.outbox(env.oldest_alert(found), env.now)

    yield Probe(env.place, "ledger", ledger)
    if _somebody_is_told(env.config):
        yield Probe(env.place, "outbox", outbox)


def _somebody_is_told(config: HoldfastConfig) -> bool:
    return config.alerts.slack is not None or config.alerts.sns is not None


def _audit(env: Environment, control: Deployed) -> Iterator[Probe]:
    prefix = env.config.name
    queue = names.audit_queue_name(prefix)
    patterns = event_patterns.audit(prefix, include_terminate_calls=env.config.audit.include_terminate_calls)
    rules = {names.audit_rule_name(prefix, kind): pattern for kind, pattern in patterns.items()}
    yield from _rules(env, env.place, rules, queue, control.stack)

    def about_audit_queue(look: Callable[[Mapping[str, str]], Told]) -> Callable[[], Told]:
        return _of_queue(env, queue, checks.deploy(control.stack), look)

    repair = checks.drift(control.stack)
    arns = [env.arn("events", f"rule/{name}") for name in rules]
    yield Probe(
        env.place,
        f"queue {queue}: policy",
        about_audit_queue(lambda found: checks.queue_policy(found, env.arn("sqs", queue), arns, env.account, repair)),
    )
    yield Probe(
        env.place,
        f"queue {queue}: waiting",
        about_audit_queue(
            lambda found: checks.waiting(found, _oldest(env, queue), warning=checks.AUDIT_QUEUE_LAG, broken=None)
        ),
    )
    for put_aside in dead_letters_in(env.config, env.account, env.region):
        if not put_aside.for_karpenter:
            yield _empty(
                env,
                env.place,
                put_aside.name,
                can_redrive=put_aside.way is not Way.NEVER,
                deploy=checks.deploy(control.stack),
            )


def _functions(env: Environment, control: Deployed) -> Iterator[Probe]:
    prefix = env.config.name
    networks = dict.fromkeys(cluster.network_id for cluster in env.clusters)
    # Logical ids, as the CDK makes them of the constructs' paths (`stacks.features`), and the queue each one reads.
    wanted: list[tuple[str, str, str | None]] = [("ingest", "AuditIngestFunction", names.audit_queue_name(prefix))]
    wanted += [(f"judge {net}", _judge(net), names.look_queue_name(prefix, net)) for net in networks]
    wanted.append(("sweeper", _SWEEPER, None))
    if _somebody_is_told(env.config):
        wanted.append(("notifier", "AlertsNotifierFunction", names.alert_queue_name(prefix)))
    for label, logical, queue in wanted:
        yield from _function(env, control, label, logical, queue)
    yield Probe(
        env.place,
        "sweeper: heartbeat",
        lambda: checks.heartbeat(
            env.metric(_METRICS, "SweeperHeartbeat", {"service": SweeperSettings.service}, "Sum", checks.POLLING)
        ),
    )


def _judge(network: str) -> str:
    return f"AuditJudge{network}Function"


def _function(env: Environment, control: Deployed, label: str, logical: str, queue: str | None) -> Iterator[Probe]:
    def name() -> str | None:
        return control.physical("AWS::Lambda::Function", logical)

    def function() -> Told:
        found = name()
        return checks.function(found, env.function(found), control.stack)

    def runs(metric: str, function: str | None) -> float | None:
        if function is None:
            return None
        return env.metric("AWS/Lambda", metric, {"FunctionName": function}, "Sum", checks.ERRORS)

    def errors() -> Told | None:
        found = name()
        if found is None:
            return None
        sweeper = control.physical("AWS::Lambda::Function", _SWEEPER)
        return checks.function_errors(runs("Errors", found), metrics_come=runs("Invocations", sweeper) is not None)

    def mapping() -> Told | None:
        found = name()
        if found is None or queue is None:
            return None
        return checks.mapping(env.arn("sqs", queue), env.mappings(found), control.stack)

    yield Probe(env.place, f"{label}: function", function)
    if queue is not None:
        yield Probe(env.place, f"{label}: queue", mapping)
    yield Probe(env.place, f"{label}: errors", errors)


def _slack(env: Environment, *, send_test: bool) -> Iterator[Probe]:
    if not _somebody_is_told(env.config):
        yield Probe(env.place, "Slack", checks.nobody_is_told)
        return
    for destination, secret in webhooks_of(env.config, env.account, env.region).items():
        # A further channel has its secret in its name; the default one is what most have alone.
        label = "Slack" if destination == SLACK else f"Slack {secret}"
        yield Probe(env.place, f"{label}: secret", functools.partial(_secret, env, secret))
        if send_test:
            yield Probe(env.place, f"{label}: test message", functools.partial(_test_message, env, secret))


def _secret(env: Environment, name: str) -> Told:
    try:
        with _asking("secretsmanager:GetSecretValue", f"secret {name}"):
            WebhookSecret(env.clients.get("secretsmanager", env.region), name).url()
    except NotFound:
        return (
            State.BROKEN,
            f"there is no secret {name}: nobody is told",
            f"aws secretsmanager create-secret --region {env.region} --name {name} --secret-string file://webhook-url.txt",
        )
    except InvalidDocument as error:
        put = f"aws secretsmanager put-secret-value --region {env.region} --secret-id {name}"
        return State.BROKEN, str(error), f"{put} --secret-string file://webhook-url.txt"
    return State.OK, f"{name} holds a URL; it was not called", None


def _test_message(env: Environment, name: str) -> Told:
    secret = WebhookSecret(env.clients.get("secretsmanager", env.region), name)
    with _asking("secretsmanager:GetSecretValue", f"secret {name}"):
        outcome = SlackMessenger(secret).post(
            {"text": f"holdfast doctor: a test message from account {env.account}, {env.region}."}
        )
    if outcome.status is DeliveryStatus.DELIVERED:
        return State.OK, "Slack took it", None
    return State.BROKEN, outcome.reason, "docs/runbook.md#alerts-undeliverable"


def _karpenter(env: Environment, cluster: Cluster) -> Iterator[Probe]:
    place, queue = cluster.name, cluster.queue_name
    stack = names.cluster_stack_id(env.config.name, env.account, env.region, cluster.name)
    deploy = checks.deploy(stack) if cluster.queue else "it is deployed by somebody else: ask them"
    about = functools.partial(_of_queue, env, queue, deploy)
    if cluster.queue is not None:
        yield _stack(env, place, "stack", stack)
        yield from _own_queue(env, cluster, cluster.queue, stack, about)
    else:
        arn = env.arn("sqs", queue)
        patterns = {str(kind): pattern for kind, pattern in event_patterns.KARPENTER.items()}
        yield Probe(place, "rules", lambda: checks.foreign_rules(arn, patterns, env.rules_of(arn)))
        yield Probe(place, f"queue {queue}: settings", about(checks.foreign_queue_settings))
    yield Probe(
        place,
        f"queue {queue}: waiting",
        about(
            lambda found: checks.waiting(
                found,
                _oldest(env, queue),
                warning=checks.KARPENTER_QUEUE_WARNING,
                broken=checks.KARPENTER_QUEUE_PAGE,
            )
        ),
    )
    yield Probe(
        place,
        "Karpenter polls",
        about(
            lambda _: checks.poller(
                _sqs(env, "NumberOfEmptyReceives", queue, "Sum"), _sqs(env, "NumberOfMessagesReceived", queue, "Sum")
            )
        ),
    )
    own = {cluster.dead_letter_queue_name, names.target_dlq_name(queue) if cluster.queue else None}
    for put_aside in dead_letters_in(env.config, env.account, env.region):
        if put_aside.name in own:
            yield _empty(env, place, put_aside.name, can_redrive=True, deploy=deploy)


def _own_queue(
    env: Environment,
    cluster: Cluster,
    queue: Queue,
    stack: str,
    about: Callable[[Callable[[Mapping[str, str]], Told]], Callable[[], Told]],
) -> Iterator[Probe]:
    place, name, repair = cluster.name, cluster.queue_name, checks.drift(stack)
    rules = {
        names.rule_name(env.config.name, cluster.name, kind): pattern
        for kind, pattern in event_patterns.KARPENTER.items()
    }
    yield from _rules(env, place, rules, name, stack)
    wanted = checks.QueueWanted(
        retention=queue.retention,
        dead_letters_arn=env.arn("sqs", names.dlq_name(name)),
        max_receive_count=queue.max_receive_count,
        kms_key_arn=queue.kms_key_arn,
        stack=stack,
    )
    arns = [env.arn("events", f"rule/{rule}") for rule in rules]
    yield Probe(place, f"queue {name}: settings", about(lambda found: checks.queue_settings(wanted, found)))
    yield Probe(
        place,
        f"queue {name}: policy",
        about(lambda found: checks.queue_policy(found, env.arn("sqs", name), arns, env.account, repair)),
    )
    yield Probe(place, f"queue {name}: readers", about(lambda found: checks.only_reader(found, cluster, repair)))


def _kubernetes(env: Environment, cluster: Cluster, control: Deployed) -> Iterator[Probe]:
    def let_in() -> Told | None:
        function = env.function(control.physical("AWS::Lambda::Function", _judge(cluster.network_id)))
        if function is None:
            # The line about the judge says so.
            return None
        role = str(function["Role"])
        if cluster.authentication_mode is AuthenticationMode.CONFIG_MAP:
            return checks.by_config_map(role)
        return checks.access_entry(role, env.groups(cluster.name, role), control.stack)

    yield Probe(cluster.name, "EKS", lambda: checks.cluster(cluster.authentication_mode, env.cluster(cluster.name)))
    yield Probe(cluster.name, "judge's access", let_in)


def _rules(
    env: Environment, place: str, rules: Mapping[str, Mapping[str, Any]], queue: str, stack: str
) -> Iterator[Probe]:
    target = Target(env.arn("sqs", queue), env.arn("sqs", names.target_dlq_name(queue)))

    def look(name: str) -> Told:
        return checks.rule(name, rules[name], target, env.rule(name), stack)

    for name in rules:
        yield Probe(place, f"rule {name}", functools.partial(look, name))


def _of_queue(
    env: Environment, queue: str, deploy: str, look: Callable[[Mapping[str, str]], Told]
) -> Callable[[], Told]:
    def told() -> Told:
        attributes = env.attributes(queue)
        return checks.no_queue(queue, deploy) if attributes is None else look(attributes)

    return told


def _empty(env: Environment, place: str, queue: str, *, can_redrive: bool, deploy: str) -> Probe:
    look = functools.partial(checks.dead_letters, queue, can_redrive=can_redrive)
    return Probe(place, f"queue {queue}", _of_queue(env, queue, deploy, look))


def _oldest(env: Environment, queue: str) -> float | None:
    return _sqs(env, "ApproximateAgeOfOldestMessage", queue, "Maximum")


def _sqs(env: Environment, metric: str, queue: str, statistic: Literal["Sum", "Maximum"]) -> float | None:
    return env.metric("AWS/SQS", metric, {"QueueName": queue}, statistic, checks.POLLING)
