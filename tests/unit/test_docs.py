"""The documentation says what is: generated pages are fresh, and links, anchors and commands exist."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from jsonschema import Draft202012Validator

from holdfast.adapters.documents import dump
from holdfast.interruption.case import Deletion, Drained, End
from holdfast.interruption.event import Home, parse
from holdfast.interruption.ingest import Message, poison_alert
from holdfast.interruption.verdict import TABLE, Cause, Verdict
from holdfast.times import parse_time
from holdfast_cli import docs_pages
from holdfast_cli.cases import CASE_KEYS
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.judge import inferred, judge_evidence
from holdfast_cli.main import app
from stacks.constructs.alarms import Runbook

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
HAND_WRITTEN = [page for page in PAGES if "Generated" not in page.read_text().splitlines()[0]]
TRACES = ROOT / "tests" / "events" / "traces"


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#{1,6} (.+)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


# Generated pages


@pytest.mark.parametrize("name", docs_pages.PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text() == docs_pages.PAGES[name](), "run: .venv/bin/python -m holdfast_cli.docs_pages"


def test_write_makes_every_page(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    docs_pages.write(tmp_path)
    assert {named: (tmp_path / named).read_text() for named in docs_pages.PAGES} == {
        name: page() for name, page in docs_pages.PAGES.items()
    }


def test_every_verdict_and_cause_is_explained() -> None:
    assert set(docs_pages.VERDICTS) == set(Verdict)
    assert set(docs_pages.CAUSES) == set(Cause)


def test_the_page_holds_every_cell_of_the_decision_table() -> None:
    page = docs_pages.interruptions_page()
    found: dict[tuple[str, str, str], tuple[str, str]] = {}
    for section in page.split("### Deletion ")[1:]:
        deletion = section.split("`")[1]
        rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines() if "|" in line]
        for drained, end, verdict, why in rows[2:]:
            for one in Drained if drained == "any" else [drained]:
                for other in End if end == "any" else [end]:
                    found[deletion, str(one), str(other)] = (verdict, why)
    assert found == {tuple(map(str, key)): (cell.verdict.value, cell.why) for key, cell in TABLE.items()}
    assert len(found) == len(Deletion) * len(Drained) * len(End)


# The observation format


def examples() -> list[dict[str, Any]]:
    return [
        json.loads(block)
        for block in re.findall(r"```json\n(.*?)```", (DOCS / "observations.md").read_text(), re.DOTALL)
    ]


def schema() -> Draft202012Validator:
    document = json.loads((DOCS / "observation.schema.json").read_text())
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_the_documented_example_is_judged() -> None:
    event, look = examples()
    evidence = Evidence()
    read_evidence("page", json.dumps([event, look]).encode(), evidence)
    judged = judge_evidence(evidence, inferred(evidence, {}))
    assert judged.all_understood
    assert [record.case.deletion for record in judged.cases] == [Deletion.IN_TIME]
    schema().validate(look)


def test_the_schema_takes_every_observation_of_the_traces_and_refuses_an_unknown_key() -> None:
    checked = 0
    for path in sorted(TRACES.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            document = json.loads(line)
            if "instance_id" in document:
                schema().validate(document)
                checked += 1
                assert list(schema().iter_errors(document | {"pod": 1}))
    assert checked > 20


def test_what_the_ledger_keeps_of_a_look_fits_the_schema() -> None:
    evidence = Evidence()
    read_evidence("trace", (TRACES / "08-stop-cycle.jsonl").read_bytes(), evidence)
    for _, look in evidence.observations:
        schema().validate(json.loads(dump(look)))


def test_every_field_of_an_observation_is_documented() -> None:
    page = (DOCS / "observations.md").read_text()
    definitions = json.loads((DOCS / "observation.schema.json").read_text())
    parts = [definitions, *definitions["$defs"].values()]
    fields = {name for part in parts for name in part.get("properties", {})}
    assert {name for name in fields if f"`{name}`" not in page and f'"{name}"' not in page} == set()


def test_every_key_of_a_case_is_documented() -> None:
    page = (DOCS / "cli.md").read_text()
    assert [key for key in CASE_KEYS if f"| `{key}` |" not in page] == []


# The runbook


def test_every_verdict_that_is_told_has_its_section_in_the_runbook() -> None:
    missing = {verdict.value.lower().replace("_", "-") for verdict in Verdict} - anchors(DOCS / "runbook.md")
    assert missing == set()


def test_every_alarm_has_its_section_in_the_runbook() -> None:
    assert {str(anchor) for anchor in Runbook} - anchors(DOCS / "runbook.md") == set()


def test_the_alert_on_a_poison_message_points_at_its_section() -> None:
    home = Home("111122223333", "ap-southeast-1")
    rejection = parse("abcd", home).rejection
    assert rejection is not None
    alert = poison_alert(rejection, Message("1", "abcd", None), home, parse_time("2026-09-01T04:10:00Z"))
    assert alert is not None
    assert alert.runbook in anchors(DOCS / "runbook.md")


# Links and commands


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
            if "://" not in target:
                yield page, target


@pytest.mark.parametrize(
    ("page", "target"), [pytest.param(page, to, id=f"{named(page)}: {to}") for page, to in links()]
)
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    assert file.exists()
    if anchor and file.suffix == ".md":
        assert anchor in anchors(file)


def commands(word: str) -> Iterator[tuple[str, list[str]]]:
    """The words after each mention of a command in code: in fenced blocks and between backticks."""
    for page in PAGES:
        text = page.read_text()
        code = re.findall(r"^```(?:sh|text)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        code += re.findall(r"`([^`\n]+)`", without_code(text)) + re.findall(r"^    (\S.*)$", text, re.MULTILINE)
        for line in "\n".join(code).replace("\\\n", " ").splitlines():
            for found in re.finditer(rf"(?:^|[|(;&]\s*)(?:\.venv/bin/)?{word} ([^|>#)\"]*)", line):
                yield f"{named(page)}: {line.strip()}", shlex.split(found[1])


def known(arguments: list[str]) -> bool:
    """Whether the words begin with a command of `holdfast` and every option among them is one of it."""
    command: Any = typer.main.get_command(app)
    words = list(arguments)
    while words and hasattr(command, "commands"):
        while words and words[0].startswith("-"):
            if words.pop(0) not in {name for param in command.params for name in param.opts} | {"--help"}:
                return False
        if not words:
            return True
        head = words.pop(0)
        if head in {"COMMAND", "..."}:
            return True
        command = command.commands.get(head)
        if command is None:
            return False
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    return all(word in options for word in words if word.startswith("--"))


def test_every_holdfast_command_in_the_documentation_exists() -> None:
    found = [(where, words) for where, words in commands("holdfast") if words]
    assert len(found) > 30
    assert [where for where, words in found if not known(words)] == []


def test_every_make_target_in_the_documentation_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = [(where, words) for where, words in commands("make") if words]
    assert found
    assert [where for where, words in found if words[0] not in targets] == []


# Style


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=named)
def test_a_page_has_no_emoji_no_badge_and_no_placeholder(page: Path) -> None:
    text = page.read_text()
    assert re.search(r"[\U0001F000-\U0001FAFF\u2600-\u27BF]|img\.shields|TODO|TBD|FIXME|lorem", text) is None


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=named)
def test_lines_break_where_sentences_do_and_stay_readable(page: Path) -> None:
    prose = [line for line in without_code(page.read_text()).splitlines() if not line.startswith("|")]
    assert [line for line in prose if len(line) > 130] == []


def test_the_readme_keeps_to_one_screenful_of_sections() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 250


def test_every_decision_is_in_the_index_and_has_its_three_parts() -> None:
    records = sorted(path for path in (DOCS / "adr").glob("0*.md"))
    index = (DOCS / "adr" / "README.md").read_text()
    for number, path in enumerate(records, start=1):
        assert path.name.startswith(f"{number:04d}-")
        assert f"]({path.name})" in index
        assert anchors(path) >= {"context", "decision", "consequences"}


def test_the_readme_makes_the_three_promises() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    for promise in (
        "1. In a cluster Holdfast writes only `spec.disruption.budgets`, `spec.limits` and its own annotation on NodePools",
        "2. Holdfast never reads from Karpenter's queue.",
        "3. What Holdfast could not find out is shown as unknown, never as fine, never as zero.",
    ):
        assert promise in text
