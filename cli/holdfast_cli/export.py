"""`holdfast interruptions export`: all that is known of a case, as JSON lines that `interruptions judge` reads back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.adapters.documents import dump
from holdfast.interruption.case import Scope
from holdfast.interruption.event import Fact
from holdfast.interruption.observation import Observation
from holdfast.interruption.record import CaseRecord
from holdfast_cli.cases import case_document


@dataclass(frozen=True, slots=True)
class Export:
    """All that is known of one instance. `scope` is None where no configuration says which clusters are ours."""

    scope: Scope | None
    records: tuple[CaseRecord, ...]
    facts: tuple[Fact, ...]
    observations: tuple[Observation, ...]


def lines(export: Export) -> Iterator[str]:
    """The export, one JSON document a line: the scope, the verdicts that were stored, then facts and looks by time."""
    if export.scope is not None:
        yield json.dumps({"scope": scope_document(export.scope)}, ensure_ascii=False)
    for record in export.records:
        yield json.dumps({"case": case_document(record)}, ensure_ascii=False)
    for fact in sorted(export.facts, key=lambda fact: (fact.at, dump(fact))):
        yield f'{{"fact": {dump(fact)}}}'
    for look in sorted(export.observations, key=lambda look: (look.at, dump(look))):
        yield dump(look)


def scope_document(scope: Scope) -> dict[str, Any]:
    """Which account and region the audit stood in, and which clusters were its own."""
    return {
        "account": scope.home.account,
        "region": scope.home.region,
        "clusters": [
            {"name": cluster.name, "controller_role_arn": cluster.controller_role_arn}
            for cluster in scope.clusters.values()
        ],
    }
