"""What all functions share: settings both ways, batches, logs without secrets, actions side by side."""

import json
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, time, timedelta

import pytest
from aws_lambda_powertools import Logger
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.slack import SlackMessenger
from holdfast.adapters.sns import SnsMessenger
from holdfast.alerts.forms import MailForm, SlackForm
from holdfast.errors import SettingsError, Unavailable
from holdfast.interruption.event import Home
from holdfast.runtime import batch, names, parallel, settings, wiring_slack
from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.observability import redact
from holdfast.runtime.scope import scope_of

ALL = [settings.IngestSettings, settings.JudgeSettings, settings.SweeperSettings, settings.NotifierSettings]


def filled(kind: type[settings.Settings], value: str = "x") -> settings.Settings:
    return kind(**{field.name: f"{value}-{field.name}" for field in fields(kind)})


@pytest.mark.parametrize("kind", ALL)
def test_settings_come_back_from_the_environment_they_were_written_to(kind: type[settings.Settings]):
    assert kind.from_env(filled(kind).to_env() | {"PATH": "/bin"}) == filled(kind)


@pytest.mark.parametrize("kind", ALL)
def test_every_missing_setting_is_named_at_once(kind: type[settings.Settings]):
    with pytest.raises(SettingsError) as raised:
        kind.from_env({})

    for field in fields(kind):
        assert f"HOLDFAST_{field.name.upper()}" in str(raised.value)


def test_look_queues_are_a_map_of_networks():
    assert settings.parse_look_queues('{"public": "https://sqs/looks"}') == {"public": "https://sqs/looks"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"public": 1}', "public"])
def test_anything_else_is_refused_with_an_example(text: str):
    with pytest.raises(SettingsError, match="HOLDFAST_LOOK_QUEUES"):
        settings.parse_look_queues(text)


def test_seconds_are_whole_numbers():
    assert settings.parse_seconds("60", "digest_window") == timedelta(minutes=1)
    with pytest.raises(SettingsError, match="HOLDFAST_DIGEST_WINDOW must be whole seconds"):
        settings.parse_seconds("1m", "digest_window")


def test_webhooks_are_a_map_of_destinations_and_may_be_none():
    assert settings.parse_webhooks('{"slack": "team/slack"}') == {"slack": "team/slack"}
    assert settings.parse_webhooks("{}") == {}
    with pytest.raises(SettingsError, match="HOLDFAST_WEBHOOKS"):
        settings.parse_webhooks('["team/slack"]')


def test_a_setting_may_say_that_there_is_no_such_thing():
    assert (settings.optional("none"), settings.optional("x")) == (None, "x")


def notifier_settings(**changes: str) -> settings.NotifierSettings:
    values = {
        "account": "111122223333",
        "region": "eu-central-1",
        "table": "t",
        "wakeup_queue": "https://sqs/1/alerts",
        "webhooks": '{"slack": "team", "slack/oncall": "oncall"}',
        "topic": "arn:aws:sns:eu-west-1:111122223333:oncall",
        "digest_window": "60",
        "quiet_hours": "22:00-07:00 Europe/Berlin",
        "runbook_url": "none",
        "dashboard_url": "https://console/d",
    }
    return settings.NotifierSettings(**values | changes)


def test_the_notifier_has_a_messenger_for_each_channel_and_for_the_topic(monkeypatch: pytest.MonkeyPatch):
    for name, value in notifier_settings().to_env().items():
        monkeypatch.setenv(name, value)
    wiring_slack.notifier.cache_clear()
    needs = wiring_slack.notifier()
    wiring_slack.notifier.cache_clear()

    assert [(one.name, type(one.messenger), type(one.form)) for one in needs.destinations] == [
        ("slack", SlackMessenger, SlackForm),
        ("slack/oncall", SlackMessenger, SlackForm),
        ("sns", SnsMessenger, MailForm),
    ]
    assert needs.pace.quiet is not None
    assert (needs.pace.quiet.start, needs.pace.quiet.end) == (time(22), time(7))


def test_the_notifier_tells_nobody_it_has_no_settings_for(monkeypatch: pytest.MonkeyPatch):
    for name, value in notifier_settings(webhooks="{}", topic="none", quiet_hours="none").to_env().items():
        monkeypatch.setenv(name, value)
    wiring_slack.notifier.cache_clear()
    needs = wiring_slack.notifier()
    wiring_slack.notifier.cache_clear()

    assert (needs.destinations, needs.pace.quiet) == ((), None)


def test_the_notifier_imports_nothing_about_instances_and_clusters():
    """What it does not work with would be a tenth of its cold start."""
    program = (
        "import sys, holdfast.runtime.wiring_slack;"
        "print(*[name for name in sys.modules if name.startswith(('holdfast.interruption', 'holdfast.karpenter'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.split() == []


@pytest.mark.parametrize("text", ["22:00", "22:00-07:00", "22-7 Nowhere/At_All", "a-b UTC"])
def test_quiet_hours_that_nobody_wrote_at_synth_are_refused(text: str):
    with pytest.raises(SettingsError, match="HOLDFAST_QUIET_HOURS must be like"):
        wiring_slack.parse_quiet_hours(text)


@pytest.mark.parametrize(
    ("partition", "region", "console"),
    [
        ("aws", "eu-central-1", "console.aws.amazon.com"),
        ("aws-cn", "cn-north-1", "console.amazonaws.cn"),
        ("aws-us-gov", "us-gov-west-1", "console.amazonaws-us-gov.com"),
    ],
)
def test_the_dashboard_is_in_the_partitions_own_console(partition: str, region: str, console: str):
    assert names.dashboard_url(partition, region, "holdfast-x") == (
        f"https://{console}/cloudwatch/home?region={region}#dashboards/dashboard/holdfast-x"
    )


RECORD = {
    "messageId": "m-1",
    "body": "{}",
    "attributes": {"SentTimestamp": "1788235801210", "ApproximateReceiveCount": "3"},
}


def test_a_record_tells_when_sqs_took_it_and_how_often_it_was_delivered():
    (record,) = batch.records({"Records": [RECORD]})

    assert batch.sent_at(record) == datetime(2026, 9, 1, 4, 10, 1, 210_000, tzinfo=UTC)
    assert batch.receive_count(record) == 3


@pytest.mark.parametrize("attributes", [None, {}, {"SentTimestamp": "soon", "ApproximateReceiveCount": ""}])
def test_a_record_without_attributes_is_a_first_delivery_of_unknown_age(attributes: dict[str, str] | None):
    (record,) = batch.records({"Records": [{**RECORD, "attributes": attributes}]})

    assert (batch.sent_at(record), batch.receive_count(record)) == (None, 1)


@pytest.mark.report("aws-powertools/powertools-lambda-python#8273")
def test_powertools_8273_a_record_without_an_id_fails_no_batch():
    """powertools-lambda-python#8273: a KeyError on one record sent back the whole batch."""
    event = {"Records": [{"body": "abcd"}, {**RECORD, "messageId": ""}, RECORD]}
    ids = [record.message_id for record in batch.records(event)]

    assert ids[2] == "m-1"
    assert len(set(ids)) == 3
    assert ids == [record.message_id for record in batch.records(event)]
    assert batch.settle(event, {}, None, Logger(service="test")) == {"batchItemFailures": []}


def test_a_record_without_a_body_counts_as_empty():
    (record,) = batch.records({"Records": [{"messageId": "m-1"}]})

    assert batch.body(record) == ""


@pytest.mark.report("aws/aws-node-termination-handler#360")
def test_nth_360_only_the_failed_messages_come_back():
    """aws-node-termination-handler#360: a batch was deleted though a part of it had failed."""
    event = {"Records": [{**RECORD, "messageId": f"m-{number}"} for number in range(10)]}

    assert batch.settle(event, {"m-4": "throttled"}, None, Logger(service="test")) == {
        "batchItemFailures": [{"itemIdentifier": "m-4"}]
    }


@pytest.mark.report("aws-powertools/powertools-lambda-python#4349")
def test_powertools_4349_a_batch_that_failed_whole_raises_nothing():
    """powertools-lambda-python#4349: raising makes Lambda slow its pollers down."""
    event = {"Records": [{**RECORD, "messageId": f"m-{number}"} for number in range(3)]}
    failed = {f"m-{number}": "throttled" for number in range(3)}

    answer = batch.settle(event, failed, None, Logger(service="test"))
    assert [item["itemIdentifier"] for item in answer["batchItemFailures"]] == ["m-0", "m-1", "m-2"]


@pytest.mark.parametrize(
    "secret",
    [
        "https://hooks.slack.com/services/T000/B000/abcdefGHI123",
        "http://127.0.0.1:4000/services/T000/B000/tok_en-1",
        "k8s-aws-v1.aHR0cHM6Ly9zdHMuYXAtc291dGhlYXN0LTE",
        "X-Amz-Signature=0123456789abcdef",
        "X-Amz-Security-Token=IQoJb3JpZ2luX2Vj%2F",
    ],
)
def test_no_secret_reaches_a_log_line(secret: str):
    line = redact(json.dumps({"message": f"posting to {secret} failed", "url": secret}))

    assert secret not in line
    assert line.count("[redacted]") == 2
    json.loads(line)


@given(st.text())
def test_what_is_no_secret_stays_as_it_is(text: str):
    if not any(word in text for word in ("/services/", "k8s-aws-v1.", "X-Amz-")):
        assert redact(text) == text


def test_actions_answer_in_their_order_whatever_fails():
    done: list[int] = []

    def action(number: int):
        def run() -> None:
            if number % 3 == 0:
                raise Unavailable(str(number))
            done.append(number)

        return run

    outcomes = parallel.parallel([action(number) for number in range(10)])

    assert [str(outcome) if outcome else None for outcome in outcomes] == [
        str(number) if number % 3 == 0 else None for number in range(10)
    ]
    assert sorted(done) == [1, 2, 4, 5, 7, 8]
    assert [str(outcome) for outcome in parallel.parallel([action(0)])] == ["0"]


def test_the_scope_is_of_one_account_and_region():
    role = "arn:aws:iam::111122223333:role/KarpenterControllerRole"
    clusters = [
        {"name": name, "region": region, "account": "111122223333", "karpenter": {"controllerRoleArn": role}}
        for name, region in (("a", "ap-southeast-1"), ("b", "eu-central-1"))
    ]
    config = HoldfastConfig.read(json.dumps({"clusters": clusters}))

    scope = scope_of(config, "111122223333", "eu-central-1")
    assert scope.home == Home("111122223333", "eu-central-1")
    assert {name: cluster.controller_role_arn for name, cluster in scope.clusters.items()} == {"b": role}
