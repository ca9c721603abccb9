"""Writes what is generated from the configuration's model: `python -m stacks.config_docs` (a test compares)."""

import json
from collections.abc import Iterator
from pathlib import Path as FilePath

from stacks.config_schema import REFUSED_KEYS, ROOT, Path, Schema, expected, json_schema, keys, resolved, schema_at

SCHEMA_FILE = "holdfast.schema.json"
DOCS_FILE = "docs/configuration.md"

_INTRODUCTION = f"""\
<!-- Generated from the model in holdfast.runtime.config by `python -m stacks.config_docs`. Do not edit. -->

# Configuration

Holdfast is configured by one file, `holdfast.yaml`, at the root of the repository. The file that is there is a working
example. `{SCHEMA_FILE}` describes it to an editor (the first line of the example names it), and
`holdfast config check` says everything that is wrong with it at once: line, key, value, what is right and why.
`cdk synth` does the same before it makes anything.

A key that is not in these tables is refused, and so is a key that is there twice. Durations are written as `300s`,
`15m`, `1h30m` or `14d`. Text that looks like a number needs quotes: `account: "011122223333"`.
"""

_ACROSS = """\
## Rules across keys

| rule | reason |
|---|---|
| no cluster twice: the same account, region and name | there is one Holdfast for a cluster |
| no queue for two clusters of an account and region, dead-letter queues and existing queues included | what one \
Karpenter receives it deletes, so each would lose the other's interruption notices |
| no queue of Holdfast's own for a cluster: `<name>-audit`, `<name>-alerts`, `<name>-looks-...` and their dead-letter \
queues | Karpenter would delete the audit's messages |
| no two clusters whose names differ only in case, in one account and region | their roles and files would be one |
| `queue` or `existingQueue`, not both | nothing is deployed for an existing queue |
| `maxReceiveCount` x 20s < `retention` | Karpenter hides a message for 20s at each receive; with less it would expire \
before it reaches the dead-letter queue |
| `retention` < `deadLetterRetention` | a moved message keeps the time it was first sent |
| `encryption`: a key of the cluster's region and partition | SQS uses no key of another region |
| `controllerRoleArn`: a role of the cluster's account and partition | Karpenter's pod gets its role there |
| `breakGlassRoleArns`: roles of the cluster's partition | no role of another partition can call |
| `partition`: the one of `region` | it follows from it |
| `functionTimeout` x 6 <= `queueVisibilityTimeout` | AWS's rule for Lambda with SQS: with less, a message that is \
still worked on comes back |
| 5 x `queueVisibilityTimeout` < `queueRetention` < 14d | a message is tried 5 times before it goes to the dead-letter \
queue, which keeps it until it is 14 days old |
"""


def schema_file() -> str:
    """The text of `holdfast.schema.json`."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def docs_page() -> str:
    """The text of `docs/configuration.md`: a table for each section, then the rules across keys and refused keys."""
    return "\n".join([_INTRODUCTION, *_sections(), _ACROSS, *_refused()])


def _sections() -> Iterator[str]:
    places: dict[str, list[str]] = {}
    for place in keys():
        section, _, key = place.rpartition(".")
        places.setdefault(section, []).append(key)
    for section, section_keys in places.items():
        schema = schema_at(_path(section))
        about = json_schema()["$defs"][schema["title"]]["description"] if section else "The whole file."
        yield f"## {f'`{section}`' if section else 'Top level'}\n\n{about}\n"
        yield "| key | value, or an example | default | meaning |\n|---|---|---|---|"
        for key in section_keys:
            yield _row(key, schema["properties"][key], required=key in schema.get("required", ()))
        yield ""


def _path(section: str) -> Path:
    path: Path = ()
    for part in section.split(".") if section else ():
        path = (*path, part.removesuffix("[]"), 0) if part.endswith("[]") else (*path, part)
    return path


def _row(key: str, schema: Schema, *, required: bool) -> str:
    schema = resolved(schema)
    default = "required" if required else _default(schema.get("default"))
    return f"| `{key}` | {_values(schema)} | {default} | {schema['description']} |"


def _values(schema: Schema) -> str:
    words, examples = expected(schema), schema.get("examples", ())
    if words == "text" and examples:
        return " or ".join(f"`{example}`" for example in examples)
    if "items" in schema:
        item = resolved(schema["items"])
        return f"{words}, each {_values(item)}" if "examples" in item else words
    return "see below" if "properties" in schema else words


def _default(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if isinstance(default, str | int) else ""


def _refused() -> Iterator[str]:
    yield "## Keys that are refused on purpose\n"
    yield "| section | key | it |"
    yield "|---|---|---|"
    for (section, key), reason in REFUSED_KEYS.items():
        yield f"| {'top level' if section == ROOT else section.lower()} | `{key}` | {reason} |"
    yield ""


def write(root: FilePath) -> None:
    """Writes both files below `root`, the repository."""
    (root / SCHEMA_FILE).write_text(schema_file())
    (root / DOCS_FILE).write_text(docs_page())


if __name__ == "__main__":
    write(FilePath(__file__).parents[1])
