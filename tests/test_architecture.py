"""Who may import whom. Each rule is a function of one module's source; each is shown to catch what it is for."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "layers" / "holdfast" / "python"

# What everybody may import: it imports nothing of ours in turn, save its own kind.
SHARED = ("holdfast.karpenter", "holdfast.cost", "holdfast.errors", "holdfast.times")
# The packages of holdfast that are no capabilities; every other one is.
NOT_CAPABILITIES = {"karpenter", "cost", "adapters", "runtime"}
# Pure libraries outside the standard library that a capability may import. None is needed so far.
PURE_LIBRARIES: tuple[str, ...] = ()
# Parts of the standard library through which a decision could see the clock, chance, the machine or the network.
IMPURE_MODULES = (
    "asyncio", "concurrent", "ctypes", "glob", "http", "importlib", "io", "locale", "logging", "multiprocessing", "os",
    "pathlib", "platform", "random", "secrets", "shutil", "signal", "smtplib", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "urllib.request", "zoneinfo",
)  # fmt: skip
IMPURE_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "getenv"}
IMPURE_BUILTINS = {"open", "input", "print", "exec", "eval", "__import__"}
# Libraries that talk to AWS, Kubernetes or Slack.
VENDORS = ("boto3", "botocore", "kubernetes", "slack_sdk", "urllib3", "requests", "httpx")
KUBERNETES_MODULE = "holdfast.adapters.kube"
# What the stacks need to know of the functions: configuration, the environment, names, metrics, the table's keys.
FOR_STACKS = (
    "holdfast.adapters.table",
    "holdfast.errors",
    "holdfast.runtime.config",
    "holdfast.runtime.config_types",
    "holdfast.runtime.deployed_rules",
    "holdfast.runtime.event_patterns",
    "holdfast.runtime.metric_names",
    "holdfast.runtime.names",
    "holdfast.runtime.objectives",
    "holdfast.runtime.routes",
    "holdfast.runtime.settings",
)
TELLTALES = re.compile(r"sandbox|ministack|\bmoto\b|localhost|127\.0\.0\.1", re.IGNORECASE)
HANDLER_LINES = 60


@dataclass(frozen=True)
class Module:
    """A module of the product: its dotted name and its source."""

    name: str
    source: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def package(self) -> str:
        """The package directly below ``holdfast`` that the module is in, or the module itself."""
        return self.name.split(".")[1] if self.name.startswith("holdfast.") else ""

    @property
    def is_capability(self) -> bool:
        return self.package in capabilities()

    def imports(self) -> Iterator[str]:
        """Absolute names: ``from a import b`` is ``a.b``, be ``b`` a module or a thing in one."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self.name.split(".")[: -node.level] if node.level else []
                yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


@cache
def capabilities() -> frozenset[str]:
    folders = {path.parent.name for path in (PACKAGE / "holdfast").glob("*/__init__.py")}
    return frozenset(folders - NOT_CAPABILITIES)


@cache
def product() -> tuple[Module, ...]:
    """Every module that is deployed or that deploys."""
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "lambdas").rglob("*.py"), *(ROOT / "stacks").rglob("*.py")]
    files += [path for path in [ROOT / "app.py"] if path.exists()]
    return tuple(Module(dotted(path), path.read_text(encoding="utf-8")) for path in sorted(files))


def dotted(path: Path) -> str:
    base = PACKAGE if path.is_relative_to(PACKAGE) else ROOT
    return ".".join(path.relative_to(base).with_suffix("").parts)


def within(name: str, *packages: str) -> bool:
    """``name`` is one of the packages, or in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_standard(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] in sys.stdlib_module_names


def called(module: Module) -> Iterator[str]:
    """The last name of each function that is called."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node.func.id


# ---- The rules: each yields what a module does wrong ----


def shared_imports_only_shared(module: Module) -> Iterator[str]:
    """`karpenter`, `cost`, `errors` and `times` are importable by everyone, so they import nobody."""
    if within(module.name, *SHARED):
        for name in module.imports():
            if not (is_standard(name) or within(name, *SHARED)):
                yield f"imports {name}"


def capability_imports_no_other(module: Module) -> Iterator[str]:
    """A capability imports the standard library, what is shared, the ports and the alert; never another capability."""
    if module.is_capability:
        own = f"holdfast.{module.package}"
        allowed = (own, "holdfast.ports", "holdfast.alerts.alert", *SHARED, *PURE_LIBRARIES)
        for name in module.imports():
            if not (is_standard(name) or within(name, *allowed)):
                yield f"imports {name}"


def decisions_are_pure(module: Module) -> Iterator[str]:
    """What decides sees neither clock nor chance nor environment, and does no input or output."""
    if module.is_capability or within(module.name, "holdfast.ports", *SHARED):
        yield from (f"imports {name}" for name in module.imports() if within(name, *IMPURE_MODULES))
        yield from (f"calls {name}()" for name in called(module) if name in IMPURE_CALLS | IMPURE_BUILTINS)


def ports_carry_no_machinery(module: Module) -> Iterator[str]:
    """Ports are Protocols and the types they carry: nothing of adapters, of runtime or of a vendor."""
    if module.name == "holdfast.ports":
        for name in module.imports():
            if not is_standard(name) and (not within(name, "holdfast") or within(name, *MACHINERY)):
                yield f"imports {name}"


MACHINERY = ("holdfast.adapters", "holdfast.runtime")


def adapters_import_what_ports_carry(module: Module) -> Iterator[str]:
    """An adapter imports ports, the types they carry, and other adapters; it takes no decision."""
    if within(module.name, "holdfast.adapters"):
        allowed = ("holdfast.adapters", "holdfast.ports", "holdfast.__version__", *SHARED, *carried_by_ports())
        for name in module.imports():
            if within(name, "holdfast") and not within(name, *allowed):
                yield f"imports {name}"


@cache
def carried_by_ports() -> frozenset[str]:
    """The modules whose types stand in the signatures of the ports, and those they are made of."""
    modules = {module.name: module for module in product()}
    found: set[str] = set()
    to_do = ["holdfast.ports"]
    while to_do:
        for name in modules[to_do.pop()].imports():
            for imported in {name, name.rpartition(".")[0]} & modules.keys() - found:
                found.add(imported)
                to_do.append(imported)
    return frozenset(found)


def only_adapters_speak_to_vendors(module: Module) -> Iterator[str]:
    """Only adapters import the AWS, Kubernetes, Slack and HTTP libraries, and only one of them Kubernetes'."""
    for name in module.imports():
        if within(name, "kubernetes") and module.name != KUBERNETES_MODULE:
            yield f"imports {name}; only {KUBERNETES_MODULE} may"
        elif within(name, *VENDORS) and not within(module.name, "holdfast.adapters"):
            yield f"imports {name}"


def only_the_edge_validates_and_observes(module: Module) -> Iterator[str]:
    """Powertools is known to runtime (and the handlers) only, pydantic to runtime and to adapters that read documents."""
    if within(module.name, "holdfast") and not within(module.name, "holdfast.runtime"):
        refused = ["aws_lambda_powertools"]
        if not within(module.name, "holdfast.adapters"):
            refused += ["pydantic", "pydantic_core"]
        yield from (f"imports {name}" for name in module.imports() if within(name, *refused))


def handlers_wire_one_capability(module: Module) -> Iterator[str]:
    """A handler imports runtime, the types of the ports and one capability, and is short."""
    if within(module.name, "lambdas"):
        used = set()
        for name in module.imports():
            package = Module(name, "").package
            if package in capabilities():
                used.add(package)
            elif not (
                is_standard(name)
                or within(name, "aws_lambda_powertools", "holdfast.runtime", "holdfast.ports", *SHARED)
            ):
                yield f"imports {name}"
        if len(used) > 1:
            yield f"imports the capabilities {', '.join(sorted(used))}"
        lines = len(module.source.splitlines())
        if lines > HANDLER_LINES:
            yield f"has {lines} lines, at most {HANDLER_LINES}"


def stacks_know_names_and_settings(module: Module) -> Iterator[str]:
    """The stacks import configuration, settings and names of the functions, none of their code."""
    if within(module.name, "stacks", "app"):
        for name in module.imports():
            if within(name, "lambdas") or (within(name, "holdfast") and not within(name, *FOR_STACKS)):
                yield f"imports {name}"


def product_ignores_the_command_line(module: Module) -> Iterator[str]:
    """Nothing that is deployed or deploys imports the operator's command, the tests or its own users."""
    for name in module.imports():
        if within(name, "holdfast_cli", "tests") or (within(name, "stacks") and within(module.name, "holdfast")):
            yield f"imports {name}"


def product_knows_no_sandbox(module: Module) -> Iterator[str]:
    """Product code differs by endpoint and credentials only, so it has no word for where it runs."""
    for number, line in enumerate(module.source.splitlines(), start=1):
        if TELLTALES.search(line):
            yield f"line {number}: {line.strip()}"


type Rule = Callable[[Module], Iterator[str]]

RULES: tuple[Rule, ...] = (
    shared_imports_only_shared,
    capability_imports_no_other,
    decisions_are_pure,
    ports_carry_no_machinery,
    adapters_import_what_ports_carry,
    only_adapters_speak_to_vendors,
    only_the_edge_validates_and_observes,
    handlers_wire_one_capability,
    stacks_know_names_and_settings,
    product_ignores_the_command_line,
    product_knows_no_sandbox,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_product_keeps_the_rule(rule: Rule) -> None:
    broken = [f"{module.name} {complaint}" for module in product() for complaint in rule(module)]

    assert broken == [], rule.__doc__


def test_the_rules_see_the_product() -> None:
    names = {module.name for module in product()}

    assert {"holdfast.ports", "holdfast.interruption.event", "stacks.bundling"} <= names
    assert {"interruption", "alerts", "render"} <= capabilities()
    assert {"holdfast.alerts.alert", "holdfast.interruption.event"} <= carried_by_ports()


@dataclass(frozen=True)
class Bad:
    """A source that a rule must refuse, and the complaint."""

    rule: Rule
    name: str
    source: str
    complaint: str = field(default="", kw_only=True)


IN_CAPABILITY = "holdfast.interruption.case"
BAD = (
    Bad(shared_imports_only_shared, "holdfast.karpenter.nodeclaim", "from holdfast.ports import Ledger"),
    Bad(shared_imports_only_shared, "holdfast.times", "import holdfast.interruption.event"),
    Bad(shared_imports_only_shared, "holdfast.errors", "from botocore.exceptions import ClientError"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "from holdfast.render.rbac import rules"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "from holdfast.alerts.message import slack_payload"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "from ..alerts import deliver"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "from holdfast import adapters"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "from holdfast.runtime.settings import Settings"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "import boto3"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "def f():\n    from pydantic import BaseModel"),
    Bad(capability_imports_no_other, IN_CAPABILITY, "if TYPE_CHECKING:\n    import kubernetes.client"),
    Bad(decisions_are_pure, IN_CAPABILITY, "from os import environ"),
    Bad(decisions_are_pure, IN_CAPABILITY, "import time as clock"),
    Bad(decisions_are_pure, IN_CAPABILITY, "import random"),
    Bad(decisions_are_pure, IN_CAPABILITY, "from urllib import request"),
    Bad(decisions_are_pure, IN_CAPABILITY, "at = datetime.now(UTC)", complaint="calls now()"),
    Bad(decisions_are_pure, IN_CAPABILITY, "at = dt.datetime.utcnow()", complaint="calls utcnow()"),
    Bad(decisions_are_pure, IN_CAPABILITY, "from uuid import uuid4\nname = uuid4()", complaint="calls uuid4()"),
    Bad(decisions_are_pure, IN_CAPABILITY, "text = open('file').read()", complaint="calls open()"),
    Bad(decisions_are_pure, "holdfast.karpenter.pods", "day = date.today()", complaint="calls today()"),
    Bad(ports_carry_no_machinery, "holdfast.ports", "from holdfast.adapters.sqs import Queues"),
    Bad(ports_carry_no_machinery, "holdfast.ports", "import boto3"),
    Bad(adapters_import_what_ports_carry, "holdfast.adapters.sqs", "from holdfast.interruption.ingest import ingest"),
    Bad(adapters_import_what_ports_carry, "holdfast.adapters.sqs", "from holdfast.runtime import settings"),
    Bad(only_adapters_speak_to_vendors, "holdfast.runtime.wiring", "import boto3"),
    Bad(only_adapters_speak_to_vendors, "holdfast.adapters.eks", "from kubernetes.client import ApiClient"),
    Bad(
        only_adapters_speak_to_vendors, "lambdas.alert_notifier.handler", "from slack_sdk.webhook import WebhookClient"
    ),
    Bad(only_adapters_speak_to_vendors, "stacks.cluster", "import botocore.session"),
    Bad(only_the_edge_validates_and_observes, "holdfast.adapters.sqs", "from aws_lambda_powertools import Logger"),
    Bad(only_the_edge_validates_and_observes, "holdfast.interruption.event", "import pydantic"),
    Bad(handlers_wire_one_capability, "lambdas.x.handler", "from holdfast.adapters.sqs import Queues"),
    Bad(handlers_wire_one_capability, "lambdas.x.handler", "import boto3"),
    Bad(
        handlers_wire_one_capability,
        "lambdas.x.handler",
        "from holdfast.interruption.audit import audit\nfrom holdfast.alerts.deliver import deliver",
        complaint="imports the capabilities alerts, interruption",
    ),
    Bad(handlers_wire_one_capability, "lambdas.x.handler", "a = 1\n" * 61, complaint="has 61 lines, at most 60"),
    Bad(stacks_know_names_and_settings, "stacks.cluster", "from holdfast.interruption.event import Kind"),
    Bad(stacks_know_names_and_settings, "app", "from holdfast.adapters import sqs, table"),
    Bad(stacks_know_names_and_settings, "stacks.features.alerts", "import lambdas.alert_notifier.handler"),
    Bad(product_ignores_the_command_line, "stacks.cluster", "from holdfast_cli.sandbox import launcher"),
    Bad(product_ignores_the_command_line, "holdfast.runtime.wiring", "from tests import fakes"),
    Bad(product_ignores_the_command_line, "holdfast.runtime.names", "from stacks import config"),
    Bad(product_knows_no_sandbox, "holdfast.adapters.sqs", "if endpoint.startswith('http://localhost'):"),
    Bad(product_knows_no_sandbox, "holdfast.runtime.settings", "SANDBOX = True"),
    Bad(product_knows_no_sandbox, "stacks.cluster", "# MiniStack has no such call"),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.rule.__name__}: {bad.source[:50]!r}")
def test_each_rule_refuses_what_it_is_for(bad: Bad) -> None:
    complaints = list(bad.rule(Module(bad.name, bad.source)))

    assert complaints
    assert bad.complaint in complaints[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_each_rule_has_something_that_it_refuses(rule: Rule) -> None:
    assert rule in {bad.rule for bad in BAD}


GOOD = (
    (IN_CAPABILITY, "from datetime import UTC, datetime\nfrom holdfast.karpenter.pods import Pod"),
    (IN_CAPABILITY, "from holdfast.alerts.alert import Alert\nfrom .event import Fact\nbatch.now"),
    ("holdfast.adapters.kube", "import kubernetes.client\nfrom holdfast.interruption.observation import Observation"),
    ("holdfast.runtime.wiring", "import os, time\nfrom holdfast.adapters import sqs\nfrom pydantic import BaseModel"),
    ("lambdas.x.handler", "from aws_lambda_powertools import Logger\nfrom holdfast.interruption.audit import audit"),
    ("stacks.cluster", "from aws_cdk import Stack\nfrom holdfast.runtime.names import QUEUE\nimport promoter"),
)


@pytest.mark.parametrize(("name", "source"), GOOD)
def test_no_rule_refuses_what_is_meant_to_be(name: str, source: str) -> None:
    assert [complaint for rule in RULES for complaint in rule(Module(name, source))] == []
