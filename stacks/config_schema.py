"""The JSON schema of `holdfast.yaml`, and what it says about a place in the file.

The schema is made from the model, and both the errors and the documentation are made from the schema.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.config_types import format_duration

type Path = tuple[str | int, ...]
type Schema = dict[str, Any]

ROOT = "Holdfast configuration"

REFUSED_KEYS: Mapping[tuple[str, str], str] = {
    ("Queue", "delay"): (
        "is not a setting on purpose: a Spot instance is gone 120s after its warning, a delay takes from that"
    ),
    ("Queue", "maximumMessageSize"): (
        "is not a setting on purpose: an AWS Health event has up to 256 KB, and what is over the queue's limit is"
        " not delivered"
    ),
    ("Queue", "visibilityTimeout"): (
        "is not a setting on purpose: Karpenter asks for 20s at each receive, whatever the queue says"
    ),
    ("Queue", "kmsKeyArn"): "is written as the value of encryption",
    ("Queue", "kmsMasterKeyId"): "is written as the value of encryption, the key's whole ARN",
    ("Queue", "existing"): "is written as existingQueue, beside queue",
    ("Slack", "webhookUrl"): (
        "must not be in this file, which is kept in version control: put the URL into a secret of AWS Secrets"
        " Manager and the secret's name into webhookSecretName. Treat the URL as leaked if it was committed"
    ),
    (ROOT, "permissionsBoundaryArn"): (
        "is written as permissionsBoundary, with the policy's name: it is looked up in the account of each stack"
    ),
}
"""Keys that people look for and that are refused for a reason, by the section's title and how the key begins."""


class _SchemaOfTheFile(GenerateJsonSchema):
    """Pydantic's schema with defaults as they are written in the file, and without titles that repeat the key."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


@cache
def _schema() -> Schema:
    return HoldfastConfig.model_json_schema(by_alias=True, schema_generator=_SchemaOfTheFile)


def json_schema() -> Schema:
    """The JSON schema (draft 2020-12) of the file, for editors. Rules across keys only `load` checks."""
    copy: Schema = json.loads(json.dumps(_schema()))
    return {"$schema": GenerateJsonSchema.schema_dialect, **copy}


def schema_at(path: Path) -> Schema:
    """The schema of what may stand at `path`, references followed; empty where nothing may."""
    schema = resolved(_schema())
    for part in path:
        if isinstance(part, int):
            below = schema.get("items", {})
        else:
            below = schema.get("properties", {}).get(part) or schema.get("additionalProperties") or {}
        schema = resolved(below)
    return schema


def resolved(schema: Schema) -> Schema:
    """`schema` with its reference followed and an alternative `null` left out; its own words win."""
    real = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(real) == 1:
        return {**resolved(real[0]), **{key: value for key, value in schema.items() if key != "anyOf"}}
    if "$ref" in schema:
        target = _schema()["$defs"][schema["$ref"].rpartition("/")[2]]
        return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def keys(schema: Schema | None = None, before: str = "") -> Iterator[str]:
    """Every key that a file may have, as `clusters[].queue.retention`."""
    for key, below in resolved(schema or _schema()).get("properties", {}).items():
        inner = resolved(below)
        yield f"{before}{key}"
        yield from keys(inner, f"{before}{key}.")
        if "items" in inner:
            yield from keys(inner["items"], f"{before}{key}[].")


def choices(schema: Schema) -> list[Any]:
    """The values a key may have, where they can be listed."""
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def expected(schema: Schema) -> str:
    """What may stand there, in words: `a whole number from 2 to 1000`."""
    listed = choices(schema)
    if listed:
        return "one of " + ", ".join(str(choice) for choice in listed)
    if "x-shortest" in schema:
        return f"a duration from {schema['x-shortest']} to {schema['x-longest']}"
    match schema.get("type"):
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "boolean":
            return "true or false"
        case "array":
            least, most = schema.get("minItems", 0), schema.get("maxItems")
            return f"a list of {least} to {most}" if most else f"a list of {least} or more"
        case "object":
            return "a mapping of keys to values"
        case _:
            return "text"
