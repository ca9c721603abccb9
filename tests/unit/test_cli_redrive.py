"""`holdfast redrive`: what may go back and what may not, and the command on moto's SQS.

moto has no StartMessageMoveTask and no ListMessageMoveTasks: for SQS's own redrive a fake stands in for the client.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from typer.testing import CliRunner

from holdfast.errors import Unavailable
from holdfast.interruption.event import Home
from holdfast.times import format_time
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.main import app
from holdfast_cli.redrive_queue import Queues, TaskStatus
from holdfast_cli.redrive_rules import DeadLetters, Letter, Way, dead_letters_in, decide, find
from stacks.config import load

ACCOUNT, REGION = "123456789012", "ap-southeast-1"  # moto's account
NOW = datetime(2026, 9, 1, 4, 12, tzinfo=UTC)
INSTANCE = "i-0a11111111111111a"
EVENTS = Path(__file__).parents[1] / "events"

CONFIG = f"""
clusters:
  - name: eksworkshop
    region: {REGION}
    account: "{ACCOUNT}"
    karpenter:
      controllerRoleArn: arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole
  - name: older
    region: {REGION}
    account: "{ACCOUNT}"
    existingQueue:
      name: Karpenter-older
      deadLetterQueueName: Karpenter-older-failed
    karpenter:
      controllerRoleArn: arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole
"""


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "holdfast.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def known(config_file: Path) -> tuple[DeadLetters, ...]:
    return dead_letters_in(load(config_file), ACCOUNT, REGION)


def spot(at: datetime, **detail: str) -> dict[str, Any]:
    return event(
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
        at,
        {"instance-id": INSTANCE, "instance-action": "terminate", **detail},
    )


def event(source: str, detail_type: str, at: datetime, detail: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": f"e-{at.timestamp()}",
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": format_time(at),
        "region": REGION,
        "resources": [],
        "detail": detail,
        **fields,
    }


def maintenance(starts_at: datetime | None, *, status: str = "upcoming", at: datetime = NOW) -> dict[str, Any]:
    detail = {
        "eventArn": "arn:aws:health:ap-southeast-1::event/EC2/AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED/1",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "statusCode": status,
        "affectedEntities": [{"entityValue": INSTANCE}],
    }
    if starts_at is not None:
        detail["startTime"] = format_datetime(starts_at, usegmt=True)
    return event("aws.health", "AWS Health Event", at, detail)


def capacity(at: datetime, ends_at: datetime) -> dict[str, Any]:
    detail = {
        "instance-id": INSTANCE,
        "instance-action": "terminate",
        "instance-termination-time": format_time(ends_at),
    }
    return event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", at, detail)


def terminated(at: datetime) -> dict[str, Any]:
    detail = {"instance-id": INSTANCE, "state": "terminated"}
    return event("aws.ec2", "EC2 Instance State-change Notification", at, detail)


def letter(body: dict[str, Any] | str, queue: DeadLetters) -> Letter:
    return Letter(
        "m-1",
        body if isinstance(body, str) else json.dumps(body),
        rule_arn=None if queue.rules is None else queue.rule_arn(queue.rules[0]),
        target_arn=queue.arn(queue.target),
        error_code="NO_PERMISSIONS",
    )


# ---- Which queues there are ----


def test_every_dead_letter_queue_is_known_with_its_way_back(known: tuple[DeadLetters, ...]) -> None:
    assert {(queue.name, queue.target, queue.way, queue.for_karpenter) for queue in known} == {
        ("eksworkshop-dlq", "eksworkshop", Way.SEND, True),
        ("eksworkshop-undelivered", "eksworkshop", Way.SEND, True),
        ("Karpenter-older-failed", "Karpenter-older", Way.SEND, True),
        ("holdfast-audit-dlq", "holdfast-audit", Way.MOVE, False),
        ("holdfast-audit-undelivered", "holdfast-audit", Way.SEND, False),
        ("holdfast-looks-public-dlq", "holdfast-looks-public", Way.MOVE, False),
        ("holdfast-alerts-dlq", "holdfast-alerts", Way.MOVE, False),
        ("holdfast-failed-sweeps", "", Way.NEVER, False),
    }


def test_nothing_for_karpenter_is_ever_moved_by_sqs(known: tuple[DeadLetters, ...]) -> None:
    """SQS moves everything, stale warnings too."""
    assert not [queue.name for queue in known if queue.for_karpenter and queue.way is not Way.SEND]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("eksworkshop-undeliverd", "eksworkshop-undelivered"),
        ("holdfast-audit-dql", "holdfast-audit-dlq"),
        ("holdfast-look-public-dlq", "holdfast-looks-public-dlq"),
    ],
)
def test_a_typo_gets_a_suggestion(typed: str, meant: str, known: tuple[DeadLetters, ...]) -> None:
    with pytest.raises(Mistake, match=f"Did you mean .*{meant}"):
        find(typed, known)


def test_a_name_like_none_gets_them_all(known: tuple[DeadLetters, ...]) -> None:
    with pytest.raises(Mistake, match=r"Those are: .*eksworkshop-dlq.*holdfast-failed-sweeps"):
        find("zzzzzzzz", known)


def test_a_name_in_two_regions_needs_the_region(known: tuple[DeadLetters, ...]) -> None:
    there = [replace(queue, home=Home(ACCOUNT, "eu-west-1")) for queue in known]
    with pytest.raises(Mistake, match=r"in ap-southeast-1, eu-west-1\. Give --region"):
        find("holdfast-audit-dlq", [*known, *there])


# ---- What may go back ----

SECOND = timedelta(seconds=1)
NOTICE = timedelta(seconds=120)  # EC2 guide: two minutes
FRESH_SPOT = spot(NOW - NOTICE + SECOND)
TO_KARPENTER = [
    pytest.param(FRESH_SPOT, True, "still to come", id="a Spot warning one second before its deadline"),
    pytest.param(spot(NOW - NOTICE), False, "stale: its deadline was 2026-09-01T04:12:00", id="at its deadline"),
    pytest.param(spot(NOW - timedelta(days=1)), False, "stale", id="a day old"),
    pytest.param(spot(NOW, **{"instance-action": "hibernate"}), False, "stale", id="hibernation begins at once"),
    pytest.param(capacity(NOW - NOTICE, NOW + SECOND), True, "still to come", id="a reservation that ends later"),
    pytest.param(capacity(NOW - SECOND, NOW), False, "stale", id="a reservation that has ended"),
    pytest.param(maintenance(NOW + timedelta(days=9)), True, "still to come", id="maintenance ahead"),
    pytest.param(maintenance(NOW - SECOND), False, "stale", id="maintenance that has begun"),
    pytest.param(maintenance(None), False, "does not say when", id="maintenance at no known time"),
    pytest.param(maintenance(NOW + timedelta(days=9), status="closed"), False, "closed", id="maintenance called off"),
    pytest.param(terminated(NOW), False, "announces nothing", id="a state change"),
    pytest.param({**FRESH_SPOT, "replay-name": "r"}, False, "replay", id="a replay"),
    pytest.param({**FRESH_SPOT, "version": "1"}, False, "unknown_version", id="a version Karpenter does not know"),
    pytest.param({**FRESH_SPOT, "resources": "x"}, False, "resources_not_a_list", id="a shape Karpenter drops"),
    pytest.param(
        {**FRESH_SPOT, "detail-type": "EC2 Next Year Interruption Warning"}, False, "announces nothing", id="a new kind"
    ),
    pytest.param("{", False, "nobody can use it: the body is not JSON", id="no JSON"),
]


@pytest.mark.parametrize("name", ["eksworkshop-undelivered", "eksworkshop-dlq", "Karpenter-older-failed"])
@pytest.mark.parametrize(("body", "send", "why"), TO_KARPENTER)
def test_karpenter_gets_only_what_is_still_to_come(
    body: dict[str, Any] | str, send: bool, why: str, name: str, known: tuple[DeadLetters, ...]
) -> None:
    queue = find(name, known)
    decision = decide(letter(body, queue), queue, NOW)
    assert (decision.send, why in decision.reason) == (send, True), decision


@pytest.mark.parametrize("body", [spot(NOW - timedelta(days=9)), terminated(NOW), maintenance(NOW - timedelta(days=1))])
def test_the_audit_gets_facts_however_old(body: dict[str, Any], known: tuple[DeadLetters, ...]) -> None:
    queue = find("holdfast-audit-undelivered", known)
    decision = decide(letter(body, queue), queue, NOW)
    assert decision.send
    assert decision.subjects == (INSTANCE,)


@pytest.mark.parametrize("name", ["eksworkshop-undelivered", "holdfast-audit-undelivered"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rule_arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/somebody-elses"}, "no rule of Holdfast"),
        ({"rule_arn": None}, "EventBridge did not put it here"),
        ({"target_arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:another"}, "its target was"),
    ],
)
def test_what_came_by_another_way_is_left_alone(
    change: dict[str, Any], why: str, name: str, known: tuple[DeadLetters, ...]
) -> None:
    queue = find(name, known)
    decision = decide(replace(letter(FRESH_SPOT, queue), **change), queue, NOW)
    assert not decision.send
    assert why in decision.reason


def test_the_rules_of_one_queue_do_not_vouch_for_another(known: tuple[DeadLetters, ...]) -> None:
    karpenter, audit = find("eksworkshop-undelivered", known), find("holdfast-audit-undelivered", known)
    assert not decide(letter(FRESH_SPOT, audit), karpenter, NOW).send


# ---- The command, on moto ----


class Deployed:
    """The queues of the configuration."""

    def __init__(self, known: tuple[DeadLetters, ...]) -> None:
        self.sqs: Any = boto3.client("sqs", region_name=REGION)
        self.known = known
        names = {queue.name for queue in known} | {queue.target for queue in known if queue.target}
        self.urls = {name: self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in sorted(names)}

    def put(self, name: str, body: dict[str, Any] | str) -> None:
        one = letter(body, find(name, self.known))
        values = {"RULE_ARN": one.rule_arn, "TARGET_ARN": one.target_arn, "ERROR_CODE": one.error_code}
        self.sqs.send_message(
            QueueUrl=self.urls[name],
            MessageBody=one.body,
            MessageAttributes={
                key: {"DataType": "String", "StringValue": value} for key, value in values.items() if value
            },
        )

    def bodies(self, name: str) -> list[str]:
        """What others would receive from the queue now, which stays there."""
        found: list[str] = []
        while messages := self.sqs.receive_message(QueueUrl=self.urls[name], VisibilityTimeout=60).get("Messages"):
            found += [message["Body"] for message in messages]
        return found


@pytest.fixture
def deployed(known: tuple[DeadLetters, ...]) -> Iterator[Deployed]:
    with mock_aws():
        yield Deployed(known)


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["redrive", *args], env={"COLUMNS": "80"})


def answer(*args: str) -> dict[str, Any]:
    result = run(*args, "--output", "json")
    assert result.exit_code == ExitCode.OK, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def outcomes(document: dict[str, Any]) -> list[str]:
    return sorted(message["outcome"] for message in document["messages"])


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def test_a_dry_run_changes_nothing_and_shows_the_messages_to_others_at_once(deployed: Deployed) -> None:
    bodies = [spot(now() - timedelta(hours=1)), maintenance(now() + timedelta(days=1))]
    for body in bodies:
        deployed.put("eksworkshop-undelivered", body)
    document = answer("eksworkshop-undelivered")
    assert outcomes(document) == ["left alone", "would be sent"]
    assert (document["applied"], document["waiting"], document["target"]) == (False, 2, "eksworkshop")
    assert deployed.bodies("eksworkshop") == []
    assert sorted(deployed.bodies("eksworkshop-undelivered")) == sorted(map(json.dumps, bodies))


@pytest.mark.parametrize("name", ["eksworkshop-undelivered", "eksworkshop-dlq"])
def test_karpenter_gets_what_is_still_to_come_as_it_was_and_the_rest_stays(name: str, deployed: Deployed) -> None:
    ahead, stale = maintenance(now() + timedelta(days=1)), spot(now() - timedelta(hours=1))
    deployed.put(name, ahead)
    deployed.put(name, stale)
    assert outcomes(answer(name, "--apply")) == ["left alone", "sent"]
    assert deployed.bodies("eksworkshop") == [json.dumps(ahead)]
    assert deployed.bodies(name) == [json.dumps(stale)]


def test_a_second_run_sends_nothing_again(deployed: Deployed) -> None:
    deployed.put("holdfast-audit-undelivered", spot(now() - timedelta(days=3)))
    assert outcomes(answer("holdfast-audit-undelivered", "--apply")) == ["sent"]
    assert outcomes(answer("holdfast-audit-undelivered", "--apply")) == []
    assert len(deployed.bodies("holdfast-audit")) == 1


def test_all_of_many_are_handled_and_a_limit_is_kept(deployed: Deployed) -> None:
    for minute in range(25):  # more than two receives of ten
        deployed.put("holdfast-audit-undelivered", spot(now() - timedelta(minutes=minute)))
    assert len(answer("holdfast-audit-undelivered", "--limit", "7")["messages"]) == 7
    assert outcomes(answer("holdfast-audit-undelivered", "--apply")) == ["sent"] * 25


def test_a_message_that_was_not_taken_stays_and_the_run_is_not_good(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent before deleted: what could not be sent is not deleted."""
    body = spot(now())
    deployed.put("holdfast-audit-undelivered", body)

    def refuse(*_: object) -> None:
        raise Unavailable("sending to holdfast-audit: AWS is not there")

    monkeypatch.setattr(Queues, "send", refuse)
    result = run("holdfast-audit-undelivered", "--apply", "--output", "json")
    assert result.exit_code == ExitCode.NOT_GOOD
    assert outcomes(json.loads(result.stdout)) == ["failed"]
    assert deployed.bodies("holdfast-audit-undelivered") == [json.dumps(body)]


def test_a_run_that_is_stopped_between_sending_and_deleting_doubles_at_worst(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = spot(now())
    deployed.put("holdfast-audit-undelivered", body)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Queues, "delete", stop)
        assert run("holdfast-audit-undelivered", "--apply").exit_code == ExitCode.INTERRUPTED
    assert deployed.bodies("holdfast-audit") == [json.dumps(body)]
    waiting = deployed.sqs.get_queue_attributes(
        QueueUrl=deployed.urls["holdfast-audit-undelivered"], AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
    )
    assert waiting["Attributes"]["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_the_table_fits_80_columns_and_says_why(deployed: Deployed) -> None:
    deployed.put("eksworkshop-undelivered", spot(now() - timedelta(hours=1)))
    result = run("eksworkshop-undelivered")
    assert result.exit_code == ExitCode.OK
    # The command to copy at the end stays in one line.
    assert max(len(line) for line in result.stdout.splitlines() if not line.startswith("aws ")) <= 80
    words = " ".join(result.stdout.split())
    for part in ("holdfast-eksworkshop-spot", "NO_PERMISSIONS", INSTANCE, "1h old", "stale", "purge-queue"):
        assert part in words, part


@pytest.mark.usefixtures("deployed")
def test_failed_sweeps_are_not_put_back() -> None:
    result = run("holdfast-failed-sweeps", "--apply")
    assert result.exit_code == ExitCode.USAGE
    assert "later ones did their work" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("config_file")
def test_a_queue_that_is_not_there_is_not_found() -> None:
    with mock_aws():
        result = run("eksworkshop-dlq")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "holdfast doctor" in result.stderr


def test_without_a_configuration_it_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("eksworkshop-dlq")
    assert result.exit_code == ExitCode.USAGE
    assert "--config" in result.stderr


# ---- SQS's own redrive, on a fake ----


class FakeSqs:
    """An SQS that moves some messages at each question. Its answers have the shape of the SQS API reference."""

    def __init__(self, waiting: int, *, each: int = 2, fails: str | None = None) -> None:
        self.waiting = self.total = waiting
        self.each = each
        self.fails = fails
        self.started: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []

    def get_queue_url(self, *, QueueName: str) -> dict[str, Any]:  # noqa: N803
        return {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{QueueName}"}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl.endswith("/holdfast-audit-dlq")
        counts = {"ApproximateNumberOfMessages": str(self.waiting), "ApproximateNumberOfMessagesNotVisible": "0"}
        return {"Attributes": {name: counts[name] for name in AttributeNames}}

    def start_message_move_task(self, **given: Any) -> dict[str, Any]:
        self.started.append(given)
        self.tasks.insert(0, {"Status": "RUNNING", "ApproximateNumberOfMessagesMoved": 0, "TaskHandle": "handle-1"})
        return {"TaskHandle": "handle-1"}

    def list_message_move_tasks(self, *, SourceArn: str, MaxResults: int) -> dict[str, Any]:  # noqa: N803
        assert SourceArn == f"arn:aws:sqs:{REGION}:{ACCOUNT}:holdfast-audit-dlq"
        if self.tasks and self.tasks[0]["Status"] == "RUNNING":
            self._go_on(self.tasks[0])
        return {"Results": [dict(task) for task in self.tasks[:MaxResults]]}

    def _go_on(self, task: dict[str, Any]) -> None:
        moved = min(self.each, self.waiting)
        self.waiting -= moved
        task["ApproximateNumberOfMessagesMoved"] += moved
        task["ApproximateNumberOfMessagesToMove"] = self.total
        if self.fails is not None:
            task |= {"Status": "FAILED", "FailureReason": self.fails}
        elif self.waiting == 0:
            task["Status"] = "COMPLETED"
        if task["Status"] != "RUNNING":
            del task["TaskHandle"]


class FakeSession:
    def __init__(self, sqs: FakeSqs) -> None:
        self.sqs = sqs

    def client(self, service: str, **_: Any) -> FakeSqs:
        assert service == "sqs"
        return self.sqs


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited, without waiting them."""
    seconds: list[float] = []
    monkeypatch.setattr("holdfast_cli.redrive.time.sleep", seconds.append)
    return seconds


@pytest.fixture
def use(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from holdfast_cli import ledgers

    def put(sqs: FakeSqs) -> FakeSqs:
        monkeypatch.setattr(ledgers, "session_of", lambda *_: FakeSession(sqs))
        monkeypatch.setattr(ledgers, "account_of", lambda *_: ACCOUNT)
        return sqs

    return put


def test_a_dry_run_of_the_audits_queue_counts_and_receives_nothing(use: Any) -> None:
    sqs = use(FakeSqs(7))  # it has no receive_message: a call would be a defect
    document = answer("holdfast-audit-dlq")
    assert (document["waiting"], document["messages"], document["move"], sqs.started) == (7, [], None, [])


def test_a_dry_run_counts_also_for_somebody_who_may_not_list_moves(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs = use(FakeSqs(7))

    def refuse(**_: Any) -> dict[str, Any]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListMessageMoveTasks")

    monkeypatch.setattr(sqs, "list_message_move_tasks", refuse)
    document = answer("holdfast-audit-dlq")
    assert (document["waiting"], document["move"]) == (7, None)
    assert "sqs:ListMessageMoveTasks" in document["move_unknown"]
    assert "Whether SQS moves them already is not known" in " ".join(run("holdfast-audit-dlq").stdout.split())


def test_sqs_is_asked_to_move_them_back_and_followed_to_the_end(use: Any, naps: list[float]) -> None:
    sqs = use(FakeSqs(5, each=2))
    document = answer("holdfast-audit-dlq", "--apply", "--rate", "50")
    assert sqs.started == [
        {"SourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:holdfast-audit-dlq", "MaxNumberOfMessagesPerSecond": 50}
    ]
    assert document["move"] == {"status": TaskStatus.COMPLETED, "moved": 5, "to_move": 5, "reason": None}
    assert naps == [2.0, 2.0]  # 2, 4 and then all 5 of them


@pytest.mark.usefixtures("naps")
def test_a_move_that_runs_already_is_followed_and_not_started_again(use: Any) -> None:
    sqs = use(FakeSqs(4))
    sqs.tasks = [{"Status": "RUNNING", "ApproximateNumberOfMessagesMoved": 0, "TaskHandle": "handle-0"}]
    assert answer("holdfast-audit-dlq", "--apply")["move"]["moved"] == 4
    assert sqs.started == []


@pytest.mark.usefixtures("naps")
def test_an_empty_queue_is_not_moved(use: Any) -> None:
    sqs = use(FakeSqs(0))
    assert answer("holdfast-audit-dlq", "--apply")["move"] is None
    assert sqs.started == []


@pytest.mark.usefixtures("naps")
def test_a_move_that_fails_is_not_good_and_says_why(use: Any) -> None:
    use(FakeSqs(4, fails="AWS.SimpleQueueService.NonExistentQueue"))
    result = run("holdfast-audit-dlq", "--apply")
    assert result.exit_code == ExitCode.NOT_GOOD
    assert "FAILED, 2 of 4 moved: AWS.SimpleQueueService.NonExistentQueue" in " ".join(result.stdout.split())


def test_stopping_the_wait_says_how_to_stop_the_move(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakeSqs(4))

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast_cli.redrive.time.sleep", stop)
    result = run("holdfast-audit-dlq", "--apply")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "cancel-message-move-task --task-handle handle-1" in result.stderr


def test_a_refusal_names_the_permission(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs = use(FakeSqs(4))

    def refuse(**_: Any) -> dict[str, Any]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "StartMessageMoveTask")

    monkeypatch.setattr(sqs, "start_message_move_task", refuse)
    result = run("holdfast-audit-dlq", "--apply")
    assert result.exit_code == ExitCode.DENIED
    assert "sqs:StartMessageMoveTask" in result.stderr


def test_the_pattern_of_the_public_sample_is_understood(known: tuple[DeadLetters, ...]) -> None:
    """A message as EventBridge puts it aside, with somebody else's rule."""
    sample = json.loads((EVENTS / "eventbridge_dlq_message.json").read_text())
    attributes = {name: value["StringValue"] for name, value in sample["MessageAttributes"].items()}
    queue = find("eksworkshop-undelivered", known)
    one = Letter("m", sample["Body"], None, attributes["RULE_ARN"], attributes["TARGET_ARN"], attributes["ERROR_CODE"])
    decision = decide(one, queue, NOW)
    assert (decision.send, decision.kind) == (False, "spot_interrupted")
    assert "no rule of Holdfast" in decision.reason
