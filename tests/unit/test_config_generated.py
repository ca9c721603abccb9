"""The files made from the configuration's model are up to date and true."""

import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml

from stacks import config_docs
from stacks.config import json_schema, load
from stacks.config_schema import REFUSED_KEYS, keys

ROOT = Path(__file__).parents[2]
REFRESH = "run: .venv/bin/python -m stacks.config_docs"


def test_the_schema_file_is_what_the_model_says():
    assert (ROOT / "holdfast.schema.json").read_text() == config_docs.schema_file(), REFRESH


def test_the_page_is_what_the_model_says():
    assert (ROOT / "docs/configuration.md").read_text() == config_docs.docs_page(), REFRESH


def test_write_makes_both_files(tmp_path):
    (tmp_path / "docs").mkdir()
    config_docs.write(tmp_path)
    assert (tmp_path / "holdfast.schema.json").read_text() == config_docs.schema_file()
    assert (tmp_path / "docs/configuration.md").read_text() == config_docs.docs_page()


def test_the_schema_is_draft_2020_12_and_takes_the_example():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load((ROOT / "holdfast.yaml").read_text()))


def test_the_schema_refuses_an_unknown_key_and_a_wrong_value_too():
    document = yaml.safe_load((ROOT / "holdfast.yaml").read_text())
    document["clusters"][0]["regoin"] = "x"
    document["audit"]["functionTimeout"] = "30"
    found = {
        tuple(error.absolute_path) for error in jsonschema.Draft202012Validator(json_schema()).iter_errors(document)
    }
    assert found == {("clusters", 0), ("audit", "functionTimeout")}


def test_every_key_has_a_description_and_a_row_in_the_page():
    page = config_docs.docs_page()
    found = list(keys())
    assert {"name", "clusters[].queue.retention", "alerts.slack.webhookSecretName"} <= set(found)
    for place in found:
        assert f"| `{place.rpartition('.')[2]}` |" in page, place
    assert all(f"`{key}`" in page for _, key in REFUSED_KEYS)


def test_the_example_is_valid_and_names_its_schema_to_the_editor():
    path = ROOT / "holdfast.yaml"
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=./holdfast.schema.json"
    config = load(path)
    assert [(c.name, c.region, c.account) for c in config.clusters] == [
        ("eksworkshop", "ap-southeast-1", "111122223333")
    ]


def test_what_the_example_has_commented_out_is_valid_too():
    """The comments show keys that work, so that uncommenting one never fails."""
    lines = (ROOT / "holdfast.yaml").read_text().splitlines()
    shown = {line.split(":")[0].strip(" #") for line in lines if ":" in line and line.lstrip().startswith("# ")}
    known = {place.rpartition(".")[2] for place in keys()}
    keys_shown = {key for key in shown if key.isidentifier() and key[0].islower()}
    assert {"network", "existingQueue", "permissionsBoundary", "maxConcurrency", "encryption"} <= keys_shown
    assert keys_shown <= known


def test_a_function_imports_the_model_without_yaml_boto3_or_the_cdk():
    code = "import sys, holdfast.runtime.config; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "holdfast.runtime.config_types" in modules
    assert not {"yaml", "boto3", "kubernetes", "aws_cdk", "stacks"} & set(modules)


def _with_examples(schema):
    if isinstance(schema, dict):
        if "examples" in schema:
            yield schema
        schema = list(schema.values())
    for below in schema if isinstance(schema, list) else ():
        yield from _with_examples(below)


def test_every_example_in_the_schema_is_right_by_the_schema():
    found = list(_with_examples(json_schema()))
    assert len(found) > 10
    for schema in found:
        for example in schema["examples"]:
            jsonschema.Draft202012Validator(schema).validate(example)
