"""Whatever stands in the file, the answer is a configuration or a `ConfigError`; what was read is never lost or told."""

import json

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtime.config import HoldfastConfig, load_resolved
from stacks.config import ConfigError, json_schema, load, parse, to_resolved_json
from stacks.config_schema import keys

ACCOUNTS, REGIONS = ("111122223333", "000000000001"), ("ap-southeast-1", "cn-north-1", "us-gov-west-1")
SECRET = "https://hooks.slack.com/services/T0000000/B0000000/s3cr3t"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates()
key_words = st.sampled_from(sorted({place.rpartition(".")[2] for place in keys()}))
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key_words | st.text(max_size=8), inner, max_size=6),
    max_leaves=20,
)
yaml_like = st.text(alphabet="ab:-[]{}&*!|>'\"\n %#,?=<~0129.eEx_\t\\Uuy@`é\x85", max_size=60)


WORD = "abxyzABXYZ0189_-"


def names(pattern):
    return st.from_regex(pattern, fullmatch=True)


@st.composite
def queues(draw):
    count = draw(st.integers(1, 700))
    retention = draw(st.integers(max(60, count * 20 + 1), 14_400))
    return {
        "maxReceiveCount": count,
        "retention": f"{retention}s",
        "deadLetterRetention": f"{draw(st.integers(retention + 1, 1_209_600))}s",
    }


@st.composite
def clusters(draw, index):
    account, region = draw(st.sampled_from(ACCOUNTS)), draw(st.sampled_from(REGIONS))
    partition = {"cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}.get(region, "aws")
    cluster = {
        # The index keeps generated clusters apart from each other and from Holdfast's own queues.
        "name": f"{index}{draw(st.text(WORD, max_size=99))}",
        "region": region,
        "account": account,
        "karpenter": {
            "controllerRoleArn": f"arn:{partition}:iam::{account}:role/{draw(st.text(WORD + '+=,.@', min_size=1, max_size=64))}"
        },
    }
    network = st.fixed_dictionaries(
        {
            "vpcId": names(r"vpc-[0-9a-f]{17}"),
            "subnetIds": st.lists(names(r"subnet-[0-9a-f]{17}"), min_size=1, max_size=3, unique=True),
            "securityGroupIds": st.lists(names(r"sg-[0-9a-f]{17}"), min_size=1, max_size=2, unique=True),
        }
    )
    extra = {
        "partition": st.just(partition),
        "authenticationMode": st.sampled_from(["API", "API_AND_CONFIG_MAP", "CONFIG_MAP"]),
        "network": st.none() | network,
        **draw(st.sampled_from([{"queue": queues()}, {"existingQueue": st.just({"name": f"existing{index}"})}])),
    }
    return cluster | draw(st.fixed_dictionaries({}, optional=extra))


@st.composite
def configurations(draw):
    timeout = draw(st.integers(1, 900))
    optional = {
        "name": names(r"[a-z][a-z0-9-]{0,19}[a-z0-9]"),
        "audit": st.just({"functionTimeout": f"{timeout}s", "queueVisibilityTimeout": f"{timeout * 6}s"}),
        "alerts": st.just({}) | st.builds(lambda n: {"slack": {"webhookSecretName": n}}, names(r"[a-z/]{1,40}")),
        "tags": st.dictionaries(names(r"[a-zA-Z]{1,20}"), names(r"[a-zé0-9 /=-]{0,20}"), max_size=5).filter(
            lambda tags: not any(key.lower().startswith("aws:") for key in tags)
        ),
        "logRetentionDays": st.sampled_from([1, 30, 3653]),
        "architecture": st.sampled_from(["arm64", "x86_64"]),
    }
    count = draw(st.integers(1, 3))
    return {"clusters": [draw(clusters(n)) for n in range(count)]} | draw(st.fixed_dictionaries({}, optional=optional))


def outcome(read, *arguments):
    """The configuration or the error, which has problems with lines and messages; any other exception is a bug."""
    try:
        return read(*arguments)
    except ConfigError as error:
        found = error
    assert found.problems
    assert all(problem.line >= 1 and problem.message for problem in found.problems)
    return found


@given(documents)
def test_any_yaml_document_is_a_configuration_or_a_list_of_problems(document):
    outcome(parse, yaml.safe_dump(document, allow_unicode=True))


@settings(max_examples=50)
@given(configurations(), documents, st.data())
def test_a_valid_file_with_one_value_replaced_by_anything_is_too(document, value, data):
    path = data.draw(st.sampled_from(["clusters", "audit", "alerts", "tags", "name", "architecture"]))
    if path == "clusters" and data.draw(st.booleans()):
        first = document["clusters"][0]
        first[data.draw(st.sampled_from(["name", "region", "account", "karpenter", "queue", "network"]))] = value
    else:
        document[path] = value
    outcome(parse, yaml.safe_dump(document, allow_unicode=True))


@given(yaml_like | st.text(max_size=60))
def test_any_text_is_a_configuration_or_a_list_of_problems(text):
    outcome(parse, text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_configuration_or_a_list_of_problems(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    outcome(load, path)


@settings(max_examples=50)
@given(configurations())
def test_a_configuration_survives_both_of_its_files(tmp_path_factory, document):
    config = parse(yaml.safe_dump(document))
    resolved = to_resolved_json(config)
    assert parse(resolved) == config  # JSON is YAML: the resolved file is also a valid holdfast.yaml
    path = tmp_path_factory.getbasetemp() / "resolved.json"
    path.write_text(resolved)
    assert load_resolved(path) == config
    assert to_resolved_json(HoldfastConfig.read(resolved)) == resolved


SCHEMA = jsonschema.Draft202012Validator(json_schema())


@settings(max_examples=50)
@given(configurations())
def test_an_editor_finds_no_fault_with_a_valid_file(document):
    assert [error.message for error in SCHEMA.iter_errors(document)] == []
    assert [
        error.message for error in SCHEMA.iter_errors(json.loads(to_resolved_json(parse(yaml.safe_dump(document)))))
    ] == []


@given(documents, st.data())
def test_a_webhook_url_is_printed_from_nowhere_in_a_file(document, data):
    place = data.draw(st.sampled_from(["clusters", "alerts", "tags", "name", "other"]))
    hidden = {
        place: data.draw(st.sampled_from([SECRET, [SECRET], {SECRET: 1}, {"x": SECRET}, {"queue": {"name": SECRET}}]))
    }
    found = outcome(parse, yaml.safe_dump({"audit": document} | hidden))
    assert "s3cr3t" not in str(found)
