"""`holdfast.yaml`: what is valid, what is refused, and that each refusal names line, key, value, reason and way out."""

import json
from datetime import timedelta

import pytest
import yaml

from holdfast.errors import HoldfastError, SettingsError
from holdfast.runtime import names
from holdfast.runtime.config import Architecture, AuthenticationMode, HoldfastConfig, load_resolved
from holdfast.runtime.config_types import Partition
from stacks.config import ConfigError, load, parse, to_resolved_json

ROLE = "arn:aws:iam::111122223333:role/KarpenterControllerRole-orders"
KEY = "arn:aws:kms:ap-southeast-1:111122223333:key/0fa6e000-0000-4000-8000-000000000000"
NETWORK = {"vpcId": "vpc-0a1b2c3d", "subnetIds": ["subnet-0a1b2c3d"], "securityGroupIds": ["sg-0a1b2c3d"]}


def cluster(**changes):
    """A cluster with nothing but what is required, and `changes`."""
    base = {
        "name": "orders",
        "region": "ap-southeast-1",
        "account": "111122223333",
        "karpenter": {"controllerRoleArn": ROLE},
    }
    return base | changes


def accept(*clusters, **top) -> HoldfastConfig:
    return parse(yaml.safe_dump({"clusters": list(clusters) or [cluster()], **top}, sort_keys=False))


def refuse(*clusters, **top):
    """The problems of a configuration, by path."""
    with pytest.raises(ConfigError) as caught:
        accept(*clusters, **top)
    return {problem.path: problem for problem in caught.value.problems}


def problems_of(text):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return list(caught.value.problems)


# What is valid, and what it means.


def test_the_least_configuration_gets_every_default():
    config = accept()
    assert config.name == "holdfast"
    assert config.architecture is Architecture.ARM64
    assert config.log_retention_days == 30
    assert config.tags == {}
    assert config.permissions_boundary is None
    assert config.alerts.slack is None
    audit = config.audit
    assert (audit.function_timeout, audit.queue_visibility_timeout) == (timedelta(seconds=30), timedelta(seconds=180))
    assert audit.queue_retention == timedelta(days=4)
    assert (audit.archive_retention_days, audit.fact_retention_days, audit.poison_retention_days) == (30, 400, 30)
    assert (audit.max_concurrency, audit.include_terminate_calls) == (10, False)
    (only,) = config.clusters
    assert only.partition is Partition.AWS
    assert only.authentication_mode is AuthenticationMode.API
    assert (only.karpenter.namespace, only.karpenter.service_account) == ("kube-system", "karpenter")
    assert only.karpenter.break_glass_role_arns == ()
    assert only.network_id == "public"
    assert (only.queue_name, only.dead_letter_queue_name) == ("orders", "orders-dlq")
    assert only.queue is not None
    # Upstream's retention, and the redrive that fits into it: 10 receives x 20 s.
    assert (only.queue.retention, only.queue.max_receive_count) == (timedelta(seconds=300), 10)
    assert only.queue.dead_letter_retention == timedelta(days=14)
    assert only.queue.kms_key_arn is None


def test_every_setting_can_be_set():
    config = accept(
        cluster(
            partition="aws",
            authenticationMode="CONFIG_MAP",
            network=NETWORK,
            karpenter={
                "namespace": "karpenter",
                "serviceAccount": "karpenter.sa",
                "controllerRoleArn": "arn:aws:iam::111122223333:role/some/path/karpenter",
                "breakGlassRoleArns": ["arn:aws:iam::444455556666:role/on-call"],
            },
            queue={
                "name": "q",
                "retention": "1h",
                "maxReceiveCount": 100,
                "deadLetterRetention": "7d",
                "encryption": KEY,
            },
        ),
        name="hf",
        audit={
            "functionTimeout": "1m",
            "queueVisibilityTimeout": "6m",
            "queueRetention": "1d",
            "archiveRetentionDays": 7,
            "maxConcurrency": 50,
            "factRetentionDays": 30,
            "poisonRetentionDays": 3,
            "includeTerminateCalls": True,
        },
        alerts={"slack": {"webhookSecretName": "team/holdfast-slack"}},
        tags={"team": "Plattform 平台", "cost:center": ""},
        permissionsBoundary="boundary",
        architecture="x86_64",
        logRetentionDays=365,
    )
    (only,) = config.clusters
    assert only.network is not None
    assert only.network_id == only.network.id
    assert only.queue is not None
    assert (only.queue_name, only.queue.kms_key_arn) == ("q", KEY)
    assert config.alerts.slack is not None
    assert config.alerts.slack.webhook_secret_name == "team/holdfast-slack"
    assert config.audit.include_terminate_calls
    assert config.tags == {"team": "Plattform 平台", "cost:center": ""}


def test_an_existing_queue_stands_in_place_of_one_of_ours():
    (only,) = accept(cluster(existingQueue={"name": "theirs", "deadLetterQueueName": "theirs-dead"})).clusters
    assert only.queue is None
    assert (only.queue_name, only.dead_letter_queue_name) == ("theirs", "theirs-dead")


def test_an_existing_queue_without_a_named_dead_letter_queue_has_none():
    (only,) = accept(cluster(existingQueue={"name": "theirs"})).clusters
    assert only.dead_letter_queue_name is None


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_other_partitions_are_taken_from_the_region(region, partition):
    role = f"arn:{partition}:iam::111122223333:role/karpenter"
    (only,) = accept(cluster(region=region, karpenter={"controllerRoleArn": role})).clusters
    assert only.partition == partition


def test_environments_are_the_distinct_accounts_and_regions_in_order():
    config = accept(
        cluster(name="a"),
        cluster(name="b", region="eu-west-1"),
        cluster(name="c"),
    )
    assert config.environments == (("111122223333", "ap-southeast-1"), ("111122223333", "eu-west-1"))
    assert [c.name for c in config.clusters_in("111122223333", "ap-southeast-1")] == ["a", "c"]


def test_clusters_of_other_regions_may_have_the_same_name_and_queue():
    assert len(accept(cluster(), cluster(region="eu-west-1")).clusters) == 2


def test_the_schema_key_is_allowed_and_not_part_of_the_resolved_configuration():
    config = accept(**{"$schema": "./holdfast.schema.json"})
    assert "$schema" not in json.loads(to_resolved_json(config))


def test_anchors_and_aliases_share_settings():
    text = """
clusters:
  - &one {name: a, region: ap-southeast-1, account: "111122223333", karpenter: &k {controllerRoleArn: %s}}
  - {name: b, region: ap-southeast-1, account: "111122223333", karpenter: *k}
"""
    assert [c.karpenter.controller_role_arn for c in parse(text % ROLE).clusters] == [ROLE, ROLE]


def test_the_configuration_cannot_be_changed():
    config = accept()
    with pytest.raises(ValueError, match="frozen"):
        config.name = "other"  # type: ignore[misc]


# The file that the functions read.


def test_the_resolved_json_is_the_same_text_each_time_and_reads_back_as_itself(tmp_path):
    config = accept(cluster(network=NETWORK), cluster(name="b", existingQueue={"name": "theirs"}))
    text = to_resolved_json(config)
    assert text == to_resolved_json(config)
    path = tmp_path / "config.json"
    path.write_text(text)
    assert load_resolved(path) == config


def test_the_resolved_json_holds_every_default():
    resolved = json.loads(to_resolved_json(accept()))
    assert resolved["clusters"][0]["partition"] == "aws"
    assert resolved["clusters"][0]["queue"]["retention"] == "5m"
    assert resolved["audit"]["queueVisibilityTimeout"] == "3m"


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"clusters": []}', b'{"futureSection": {}}', b"\xff"])
def test_a_function_with_a_missing_or_foreign_file_says_to_deploy_again(tmp_path, content):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"config\.json.*Deploy again"):
        load_resolved(path)


def test_a_function_never_writes_a_secret_into_its_error(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"clusters": [], "alerts": {"slack": {"webhookSecretName": "https://hooks.slack.com/x"}}})
    )
    with pytest.raises(SettingsError) as caught:
        load_resolved(path)
    assert "hooks.slack" not in str(caught.value)


# Rules of one key.


def _nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


@pytest.mark.report("aws/karpenter-provider-aws#6024", "aws/karpenter-provider-aws#7209")
@pytest.mark.parametrize(
    ("key", "value", "message", "suggestion"),
    [
        ("name", "Orders Prod", "EKS cluster name", None),
        ("name", "arn:aws:eks:ap-southeast-1:111122223333:cluster/orders", "not its ARN", "orders"),
        ("name", "x" * 101, "1 to 100", None),
        ("region", "ap-southest-1", "AWS region", "ap-southeast-1"),
        ("region", "ap-southeast-1a", "not an Availability Zone", "ap-southeast-1"),
        ("region", "us-iso-east-1", "Holdfast knows no other", None),
        ("account", "1234", "12 digits", None),
        ("account", "\N{ARABIC-INDIC DIGIT ONE}" * 12, "12 digits", None),
        ("account", 111122223333, "in quotes", '"111122223333"'),
        ("partition", "aws-cn", "partition of ap-southeast-1", "aws"),
        ("partition", "awscn", "one of aws, aws-cn, aws-us-gov", "aws-cn"),
        ("authenticationMode", "api", "one of API, API_AND_CONFIG_MAP, CONFIG_MAP", "API"),
        ("authenticationMode", "API_AND_CONFIGMAP", "one of", "API_AND_CONFIG_MAP"),
        ("network.vpcId", "vpc-xyz", "VPC id", None),
        ("network.subnetIds", "subnet-0a1b2c3d", "a list of 1 to 16", "[subnet-0a1b2c3d]"),
        ("network.subnetIds", [], "a list of 1 to 16", None),
        ("network.subnetIds", ["subnet-0a1b2c3d", "subnet-0a1b2c3d"], "twice", None),
        ("network.securityGroupIds[0]", ["group-1"], "security group id", None),
        ("karpenter.namespace", "Kube_System", "Kubernetes namespace", None),
        ("karpenter.serviceAccount", "karpenter/sa", "service account", None),
        ("karpenter.controllerRoleArn", "KarpenterControllerRole", "IAM role ARN", None),
        (
            "karpenter.controllerRoleArn",
            "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-orders/session",
            "not a session's",
            ROLE,
        ),
        (
            "karpenter.controllerRoleArn",
            "arn:aws:iam::111122223333:instance-profile/x",
            "not an instance profile's",
            None,
        ),
        ("karpenter.controllerRoleArn", None, "not empty", None),
        ("queue.name", "arn:aws:sqs:ap-southeast-1:111122223333:orders", "not an ARN", "orders"),
        ("queue.name", "https://sqs.ap-southeast-1.amazonaws.com/111122223333/orders", "not a URL", "orders"),
        ("queue.name", "https://example.com/orders", "not a URL", None),
        ("queue.name", "orders.fifo", "standard queue", None),
        ("queue.name", "q" * 81, "1 to 80", None),
        ("queue.retention", 300, "must have a unit", "300s"),
        ("queue.retention", "5 M", "duration", "5m"),
        ("queue.retention", "soon", "duration", None),
        ("queue.retention", "59s", "from 1m to 4h", None),
        ("queue.retention", "5h", "from 1m to 4h", None),
        ("queue.retention", [300], "duration", None),
        ("queue.maxReceiveCount", 0, "from 1 to 1000", None),
        ("queue.maxReceiveCount", "10", "a whole number", "10"),
        ("queue.maxReceiveCount", True, "a whole number", None),
        ("queue.maxReceiveCount", 2.5, "a whole number", None),
        ("queue.deadLetterRetention", "15d", "from 1m to 14d", None),
        ("queue.encryption", "KMS_MANAGED", "AWS managed key", "SQS_MANAGED"),
        ("queue.encryption", "alias/aws/sqs", "AWS managed key", "SQS_MANAGED"),
        ("queue.encryption", "arn:aws:kms:ap-southeast-1:111122223333:alias/aws/sqs", "AWS managed key", "SQS_MANAGED"),
        ("queue.encryption", "alias/mine", "not an alias", None),
        ("queue.encryption", "0fa6e000-0000-4000-8000-000000000000", "not its id", None),
        ("queue.encryption", "UNENCRYPTED", "no queue without encryption", "SQS_MANAGED"),
        ("queue.encryption", "sse-sqs", "SQS_MANAGED", "SQS_MANAGED"),
        ("queue.encryption", "nonsense", "customer managed KMS key", None),
        ("existingQueue.name", "arn:aws:sqs:ap-southeast-1:111122223333:orders", "not an ARN", "orders"),
    ],
)
def test_a_wrong_value_of_a_cluster_is_refused_with_what_is_right(key, value, message, suggestion):
    path = key.removesuffix("[0]")
    section, _, last = path.rpartition(".")
    base = {"network": NETWORK, "karpenter": {"controllerRoleArn": ROLE}}.get(section, {})
    change = {section: base | {last: value}} if section else {last: value}
    found = refuse(cluster(**change))
    problem = found[f"clusters[0].{key}"]
    assert message in problem.message
    assert problem.suggestion == suggestion
    assert list(found) == [f"clusters[0].{key}"]


@pytest.mark.parametrize(
    ("key", "value", "message", "suggestion"),
    [
        ("name", "Holdfast", "2 to 21", None),
        ("name", "holdfast-", "2 to 21", None),
        ("clusters", [], "a list of 1 or more", None),
        ("clusters", {"name": "x"}, "a list of 1 or more", None),
        ("audit.maxConcurrency", 1, "from 2 to 1000", None),
        ("audit.maxConcurrency", 1001, "from 2 to 1000", None),
        ("audit.archiveRetentionDays", 0, "from 1 to 3650", None),
        ("audit.includeTerminateCalls", "maybe", "true or false", None),
        ("audit.functionTimeout", "16m", "from 1s to 15m", None),
        ("audit", None, "a mapping", None),
        ("tags.aws:x", "y", "aws:", None),
        ("tags.AWS:x", "y", "aws:", None),
        ("tags.CostCenter", 1234, "in quotes", '"1234"'),
        ("tags.Prod", True, "in quotes", '"true"'),
        ("tags.x", "v" * 257, "0 to 256", None),
        ("tags.x", "<b>", "0 to 256", None),
        ("tags.a;b", "y", "1 to 128", None),
        ("permissionsBoundary", "arn:aws:iam::111122223333:policy/team/boundary", "not its ARN", "boundary"),
        ("architecture", "arm", "one of arm64, x86_64", "arm64"),
        ("architecture", "x86-64", "one of arm64, x86_64", "x86_64"),
        ("logRetentionDays", 31, "one of 1, 3, 5", "30"),
        ("logRetentionDays", "30", "one of 1, 3, 5", "30"),
    ],
)
def test_a_wrong_value_at_the_top_is_refused_with_what_is_right(key, value, message, suggestion):
    head, _, rest = key.partition(".")
    found = refuse(**{head: {rest: value} if rest else value})
    assert message in found[key].message
    assert found[key].suggestion == suggestion
    assert list(found) == [key]


def test_forty_tags_are_allowed_and_no_more():
    assert len(accept(tags={f"t{n}": "x" for n in range(40)}).tags) == 40
    assert "40 tags at most, here 41" in refuse(tags={f"t{n}": "x" for n in range(41)})["tags"].message


# Keys.


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [("regoin", "region"), ("authenticatonMode", "authenticationMode"), ("authentication_mode", "authenticationMode")],
)
def test_an_unknown_key_is_refused_with_a_near_miss(key, suggestion):
    problem = refuse(cluster(**{key: "x"}))[f"clusters[0].{key}"]
    assert (problem.message, problem.suggestion) == ("is not a setting", suggestion)


def test_a_misspelt_required_key_is_one_problem_not_two():
    given = cluster()
    given["acount"] = given.pop("account")
    found = refuse(given)
    assert {path: problem.suggestion for path, problem in found.items()} == {"clusters[0].acount": "account"}


def test_a_key_in_the_wrong_section_is_told_where_it_belongs():
    assert refuse(cluster(deadLetterRetention="14d"))["clusters[0].deadLetterRetention"].suggestion == (
        "clusters[].queue.deadLetterRetention"
    )


def test_a_key_like_no_other_is_told_which_there_are():
    assert "Here are: slack" in refuse(alerts={"zzzz": 1})["alerts.zzzz"].message


def test_a_missing_key_says_what_it_is():
    given = cluster()
    del given["account"], given["karpenter"]
    found = refuse(given)
    assert set(found) == {"clusters[0].account", "clusters[0].karpenter"}
    assert found["clusters[0].account"].message.startswith("is required: the cluster's account")


@pytest.mark.report("aws/aws-node-termination-handler#562")
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("delay", "90s", "gone 120s after its warning"),
        ("delaySeconds", 90, "gone 120s after its warning"),
        ("maximumMessageSize", 2048, "256 KB"),
        ("maximum_message_size", 2048, "256 KB"),
        ("maximumMessageSizeBytes", 2048, "256 KB"),
        ("visibilityTimeout", "30s", "Karpenter asks for 20s"),
        ("kmsKeyArn", KEY, "encryption"),
        ("existing", {"name": "q"}, "existingQueue"),
    ],
)
def test_a_queue_setting_that_would_lose_messages_is_refused_with_the_reason(key, value, reason):
    assert reason in refuse(cluster(queue={key: value}))[f"clusters[0].queue.{key}"].message


def test_a_key_that_is_there_twice_is_refused_with_both_lines():
    text = "name: one\nclusters: []\nname: two\n"
    (clusters, twice) = problems_of(text)
    assert clusters.path == "clusters"
    assert (twice.path, twice.line, twice.value) == ("name", 3, "two")
    assert "first on line 1" in twice.message


# Rules across keys.


@pytest.mark.parametrize(
    ("queue", "right"),
    [
        ({"maxReceiveCount": 15}, False),  # 15 x 20 s = 300 s, the default retention
        ({"maxReceiveCount": 14}, True),
        ({"retention": "200s"}, False),  # the default 10 x 20 s
        ({"retention": "201s"}, True),
        ({"retention": "1h", "maxReceiveCount": 179}, True),
        ({"retention": "1h", "maxReceiveCount": 180}, False),
        ({"retention": "4h", "maxReceiveCount": 1000}, False),
    ],
)
def test_a_message_reaches_the_dead_letter_queue_before_it_expires(queue, right):
    if right:
        assert accept(cluster(queue=queue))
        return
    problem = refuse(cluster(queue=queue))["clusters[0].queue.retention"]
    assert "before it reaches the dead-letter queue" in problem.message
    assert "smaller maxReceiveCount" in str(problem.suggestion)


def test_a_default_that_breaks_a_rule_is_shown_as_a_default():
    problem = refuse(cluster(queue={"maxReceiveCount": 15}))["clusters[0].queue.retention"]
    assert problem.value == "5m (the default)"


def test_dead_letters_live_longer_than_messages():
    queue = {"retention": "1h", "deadLetterRetention": "1h"}
    assert "longer than retention (1h)" in refuse(cluster(queue=queue))["clusters[0].queue.deadLetterRetention"].message


@pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5193")
@pytest.mark.parametrize(
    ("audit", "right"),
    [
        ({"functionTimeout": "30s", "queueVisibilityTimeout": "179s"}, False),
        ({"functionTimeout": "30s", "queueVisibilityTimeout": "180s"}, True),
        ({"functionTimeout": "31s"}, False),  # against the default of 180 s
        ({"functionTimeout": "30s", "queueVisibilityTimeout": "30s"}, False),
    ],
)
def test_the_visibility_timeout_is_six_times_the_functions(audit, right):
    if right:
        assert accept(audit=audit)
        return
    problem = refuse(audit=audit)["audit.queueVisibilityTimeout"]
    assert "6 x functionTimeout" in problem.message
    assert problem.suggestion == ("3m6s" if audit["functionTimeout"] == "31s" else "3m")


@pytest.mark.parametrize(("retention", "right"), [("15m", False), ("901s", True), ("13d", True), ("14d", False)])
def test_the_audits_retries_and_dead_letters_fit_its_retention(retention, right):
    """5 tries x 180 s = 15 minutes below; the dead-letter queue's 14 days above."""
    if right:
        assert accept(audit={"queueRetention": retention})
    else:
        assert list(refuse(audit={"queueRetention": retention})) == ["audit.queueRetention"]


def test_the_same_cluster_twice_is_refused():
    found = refuse(cluster(), cluster())
    assert list(found) == ["clusters[1].name"]
    assert "as clusters[0] in 111122223333, ap-southeast-1" in found["clusters[1].name"].message


@pytest.mark.report("aws/karpenter-provider-aws#5536")
@pytest.mark.parametrize(
    ("second", "where"),
    [
        ({"name": "b", "queue": {"name": "orders"}}, "queue.name"),
        ({"name": "b", "existingQueue": {"name": "orders"}}, "existingQueue.name"),
        ({"name": "orders-dlq"}, "name"),
        ({"name": "b", "queue": {"name": "orders-undelivered"}}, "queue.name"),
        (
            {"name": "b", "existingQueue": {"name": "b", "deadLetterQueueName": "orders"}},
            "existingQueue.deadLetterQueueName",
        ),
    ],
)
def test_two_clusters_never_share_a_queue(second, where):
    found = refuse(cluster(), cluster(**second))
    assert list(found) == [f"clusters[1].{where}"]
    assert "lose the other's interruption notices" in found[f"clusters[1].{where}"].message
    assert "clusters[0] (orders)" in found[f"clusters[1].{where}"].message


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"name": "holdfast-audit"}, "name"),
        ({"queue": {"name": "holdfast-audit-dlq"}}, "queue.name"),
        ({"queue": {"name": "Holdfast-Alerts"}}, "queue.name"),
        ({"existingQueue": {"name": "holdfast-looks-net12345678"}}, "existingQueue.name"),
        (
            {"existingQueue": {"name": "q", "deadLetterQueueName": "holdfast-failed-sweeps"}},
            "existingQueue.deadLetterQueueName",
        ),
    ],
)
def test_karpenter_never_gets_a_queue_of_holdfasts_own(changes, where):
    found = refuse(cluster(**changes))
    assert list(found) == [f"clusters[0].{where}"]
    assert "Holdfast has for its own messages" in found[f"clusters[0].{where}"].message


def test_another_prefix_frees_those_names():
    assert accept(cluster(name="holdfast-audit"), name="hf")


def test_two_existing_queues_may_share_a_dead_letter_queue():
    first = cluster(existingQueue={"name": "a", "deadLetterQueueName": "dead"})
    assert accept(first, cluster(name="b", existingQueue={"name": "b", "deadLetterQueueName": "dead"}))


def test_an_existing_queue_is_not_its_own_dead_letter_queue():
    found = refuse(cluster(existingQueue={"name": "q", "deadLetterQueueName": "q"}))
    assert "another queue than the cluster's own" in found["clusters[0].existingQueue.deadLetterQueueName"].message


def test_names_that_differ_only_in_case_are_refused():
    found = refuse(cluster(), cluster(name="Orders"))
    assert "differs only in case" in found["clusters[1].name"].message


def test_a_cluster_named_like_the_shortened_name_of_another_is_refused():
    """100 characters make a stack name of over 128, which is cut and hashed; nobody gets that name by chance."""
    long = cluster(name="x" * 100)
    shortened = names.cluster_stack_id("holdfast", "111122223333", "ap-southeast-1", "x" * 100)
    twin = shortened.removeprefix("holdfast-cluster-111122223333-ap-southeast-1-")
    found = refuse(long, cluster(name=twin))
    assert f"makes the stack {shortened}" in found["clusters[1].name"].message


def test_a_shared_queue_is_found_beside_other_mistakes_in_the_same_clusters():
    found = refuse(cluster(queue={"retention": "x"}), cluster(name="b", queue={"name": "orders", "maxReceiveCount": 0}))
    assert set(found) == {"clusters[0].queue.retention", "clusters[1].queue.name", "clusters[1].queue.maxReceiveCount"}


def test_queue_settings_beside_an_existing_queue_are_refused():
    found = refuse(cluster(queue={"retention": "15m"}, existingQueue={"name": "q"}))
    assert "existingQueue" in found["clusters[0].queue"].message


def test_an_empty_queue_section_is_refused_rather_than_guessed():
    assert "remove the key" in refuse(cluster(queue=None))["clusters[0].queue"].message


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"karpenter": {"controllerRoleArn": "arn:aws:iam::444455556666:role/k"}},
            "karpenter.controllerRoleArn",
            "the cluster's account 111122223333",
        ),
        (
            {"karpenter": {"controllerRoleArn": "arn:aws-cn:iam::111122223333:role/k"}},
            "karpenter.controllerRoleArn",
            "arn:aws:",
        ),
        (
            {
                "karpenter": {
                    "controllerRoleArn": ROLE,
                    "breakGlassRoleArns": ["arn:aws-us-gov:iam::111122223333:role/k"],
                }
            },
            "karpenter.breakGlassRoleArns[0]",
            "arn:aws:",
        ),
        (
            {"queue": {"encryption": KEY.replace("ap-southeast-1", "eu-west-1")}},
            "queue.encryption",
            "the queue's region ap-southeast-1",
        ),
        ({"queue": {"encryption": KEY.replace("arn:aws:", "arn:aws-cn:")}}, "queue.encryption", "arn:aws:"),
    ],
)
def test_an_arn_of_another_account_region_or_partition_is_refused(changes, path, message):
    found = refuse(cluster(**changes))
    assert list(found) == [f"clusters[0].{path}"]
    assert message in found[f"clusters[0].{path}"].message


# Secrets.


@pytest.mark.parametrize(
    "alerts",
    [
        {"slack": {"webhookSecretName": "https://hooks.slack.com/services/T0000000/B0000000/s3cr3t"}},
        {"slack": {"webhookSecretName": "hooks.slack.com/services/T0000000/B0000000/s3cr3t"}},
        {"slack": {"webhookSecretName": "T0000000/B0000000/s3cr3t"}},
        {"slack": {"webhookUrl": "https://hooks.slack.com/services/T0000000/B0000000/s3cr3t"}},
        {"slack": {"webhookSecretName": ["https://hooks.slack.com/services/T0000000/B0000000/s3cr3t"]}},
        {"slack": "https://hooks.slack.com/services/T0000000/B0000000/s3cr3t"},
        {"slack": {"https://hooks.slack.com/services/T0000000/B0000000/s3cr3t": "x"}},
        {"slack": {"secret": "s3cr3t"}},
    ],
)
def test_a_webhook_url_is_refused_and_never_printed(alerts):
    with pytest.raises(ConfigError) as caught:
        accept(alerts=alerts)
    for text in (str(caught.value), repr(caught.value.problems), repr(caught.value)):
        assert "s3cr3t" not in text
    assert all(problem.path.startswith("alerts") for problem in caught.value.problems)


def test_a_webhook_url_under_a_wrong_key_is_not_printed_either():
    with pytest.raises(ConfigError) as caught:
        accept(slackWebhook="https://hooks.slack.com/services/T0000000/B0000000/s3cr3t")
    assert "s3cr3t" not in str(caught.value)
    assert "slackWebhook" in str(caught.value)


def test_a_secrets_arn_is_refused_with_its_name():
    arn = "arn:aws:secretsmanager:ap-southeast-1:111122223333:secret:team/slack-AbC123"
    found = refuse(alerts={"slack": {"webhookSecretName": arn}})
    assert found["alerts.slack.webhookSecretName"].suggestion == "team/slack"


# Where alerts go, and when.

CHANNEL = {"webhookSecretName": "team/oncall", "severities": ["page"]}
TOPIC = "arn:aws:sns:ap-southeast-1:111122223333:oncall"


def alerts(**more):
    return {"slack": {"webhookSecretName": "team/slack"}, **more}


def test_all_of_alerts_comes_back_from_what_the_functions_are_given():
    config = accept(
        alerts=alerts(
            slack={"webhookSecretName": "team/slack", "channels": [CHANNEL]},
            sns={"topicArn": TOPIC, "keyArn": KEY, "severities": ["page"]},
            quietHours={"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
            runbookUrl="https://git.example/runbook.md?plain=1",
        )
    )

    assert HoldfastConfig.read(to_resolved_json(config)).alerts == config.alerts
    assert config.alerts.slack.channels[0].severities == ("page",)


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"slack": {"webhookSecretName": "s", "channels": [{**CHANNEL, "clusters": ["typo"]}]}},
            "slack.channels[0].clusters[0]",
            "must be a cluster of this file. Here are: orders",
        ),
        (
            {"slack": {"webhookSecretName": "s", "channels": [{**CHANNEL, "severities": ["page", "page"]}]}},
            "slack.channels[0].severities",
            "must name each one once",
        ),
        ({"slack": {"webhookSecretName": "s", "channels": [CHANNEL] * 7}}, "slack.channels", "6"),
        ({"sns": {"topicArn": f"{TOPIC}.fifo"}}, "sns.topicArn", "must be a standard topic"),
        ({"sns": {"topicArn": TOPIC.replace("aws:", "aws-cn:")}}, "sns.topicArn", "of the clusters' partition, aws"),
        ({"sns": {"keyArn": KEY}}, "sns.keyArn", "goes with topicArn"),
        (
            {"sns": {"topicArn": TOPIC, "keyArn": KEY.replace("ap-southeast-1", "eu-west-1")}},
            "sns.keyArn",
            "must be a key of the topic's region, ap-southeast-1",
        ),
        ({"sns": {"topicArn": TOPIC, "keyArn": "alias/mine"}}, "sns.keyArn", "not an alias"),
        ({"quietHours": {"from": "22:00", "to": "22:00"}}, "quietHours.to", "must be another time than from"),
        ({"quietHours": {"from": "24:00", "to": "07:00"}}, "quietHours.from", "must be a time of day"),
        ({"quietHours": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berln"}}, "quietHours.timezone", "IANA"),
        ({"quietHours": {"from": "22:00", "to": "07:00", "timezone": "../etc"}}, "quietHours.timezone", "IANA"),
        ({"runbookUrl": "http://git.example/runbook.md"}, "runbookUrl", "must be an https URL"),
        ({"runbookUrl": "https://git.example/runbook.md#missed"}, "runbookUrl", "without a fragment"),
        ({"runbookUrl": "https://git.example/a|b>"}, "runbookUrl", "must be an https URL"),
        ({"runbookUrl": "https://git.example/" + "x" * 300}, "runbookUrl", "300 characters at most"),
    ],
)
def test_what_would_tell_nobody_or_the_wrong_ones_is_refused(changes, path, message):
    found = refuse(alerts=alerts(**changes))
    assert list(found) == [f"alerts.{path}"]
    assert message in found[f"alerts.{path}"].message


def test_a_time_that_yaml_read_as_a_number_is_offered_in_quotes():
    """YAML 1.1 reads 22:00 as 22 * 60."""
    found = refuse(alerts=alerts(quietHours={"from": 1320, "to": "07:00"}))
    assert found["alerts.quietHours.from"].suggestion == '"22:00"'


# The report.

BAD = """\
name: holdfast
clusters:
  - name: orders
    region: ap-southest-1
    account: 011122223333
    karpenter:
      controllerRoleArn: arn:aws:iam::111122223333:role/k
    queue:
      retention: 200s
audit:
  functionTimeot: 30s
"""


def test_all_problems_come_at_once_each_with_its_line_key_value_reason_and_way_out():
    found = [(p.line, p.path, p.value, p.suggestion) for p in problems_of(BAD)]
    assert found == [
        (4, "clusters[0].region", "ap-southest-1", "ap-southeast-1"),
        (5, "clusters[0].account", "011122223333", '"011122223333"'),
        (9, "clusters[0].queue.retention", "200s", "4m20s, or a smaller maxReceiveCount"),
        (11, "audit.functionTimeot", "30s", "functionTimeout"),
    ]


def test_the_octal_trap_of_an_account_with_a_leading_zero_is_named():
    account = next(p for p in problems_of(BAD) if p.path == "clusters[0].account")
    assert "octal" in account.message


def test_the_report_reads_as_a_list_with_file_and_line():
    with pytest.raises(ConfigError) as caught:
        parse(BAD, "conf/holdfast.yaml")
    lines = str(caught.value).splitlines()
    assert isinstance(caught.value, HoldfastError)
    assert lines[0] == "conf/holdfast.yaml: 4 problems"
    assert lines[1:4] == [
        "  conf/holdfast.yaml:4  clusters[0].region: ap-southest-1",
        "      must be an AWS region such as ap-southeast-1",
        "      Try: ap-southeast-1",
    ]


def test_a_long_value_is_shortened_and_kept_on_one_line():
    problem = refuse(cluster(name="x\n" * 500))["clusters[0].name"]
    assert problem.value is not None
    assert len(problem.value) < 130
    assert "\n" not in problem.value


# Files that are no configuration.


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty"),
        ("# nothing\n", 1, "is empty"),
        ("null\n", 1, "is empty"),
        ("a: [1\nb: 2\n", 2, "is not YAML"),
        ("a: 1\n\tb: 2\n", 2, "is not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "is not YAML"),
        ("a: \x00", 1, "is not YAML"),
        ('a: "\\UFFFFFFFF"', 1, "is not YAML"),
        ("[" * 500, 1, "nested too deeply"),
        ("- 1\n", 1, "a mapping"),
        ("just text\n", 1, "a mapping"),
    ],
)
def test_what_is_no_configuration_is_one_problem_with_its_line(text, line, message):
    (problem,) = problems_of(text)
    assert (problem.path, problem.line) == ("", line)
    assert message in problem.message


@pytest.mark.parametrize(
    ("line", "path", "message"),
    [
        ("name: !!python/object:os.system x", "name", "YAML tag"),
        ("name: !mine x", "name", "YAML tag !mine"),
        ("tags: !!set {a, b}", "tags", "YAML tag !!set"),
        ("tags: {a: &a [*a]}", "tags.a[0]", "contains itself"),
        ("tags: {<<: {a: b}}", "tags", "merge key"),
        ("tags: {1: b}", "tags", "does not read as text"),
        ("tags: {yes: b}", "tags", "does not read as text"),
        ("tags: {[a]: b}", "tags", "keys are text"),
        ("name: !!int x", "name", "cannot be read"),
        ("name: " + "[" * 45 + "]" * 45, "name" + "[0]" * 39, "nested too deeply"),
    ],
)
def test_yaml_beyond_plain_values_is_refused_not_guessed(line, path, message):
    found = {problem.path: problem for problem in problems_of(f"clusters: [{json.dumps(cluster())}]\n{line}\n")}
    assert message in found[path].message
    assert found[path].line == 2


def test_an_unreadable_item_is_one_problem_and_the_others_keep_their_numbers():
    found = {problem.path for problem in problems_of(f"clusters: [!mine x, {json.dumps(cluster(account='1'))}]")}
    assert found == {"clusters[0]", "clusters[1].account"}


def test_aliases_of_aliases_do_not_fill_the_memory():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (problem,) = problems_of(text)
    assert "more than 20000 values" in problem.message


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml.*\n.*\n.*cannot be read: No such file"):
        load(tmp_path / "nothing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: holdfast\ntags: {x: \xe4}\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2 .*\n.*is not UTF-8"):
        load(tmp_path / "latin.yaml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "holdfast.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + yaml.safe_dump({"clusters": [cluster()]}).encode())
    assert load(path).clusters[0].name == "orders"
