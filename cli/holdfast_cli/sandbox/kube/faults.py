"""Failures that a test or a drill orders for the next calls."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from holdfast_cli.sandbox.kube.request import Call


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the next `times` calls that match `verb` and `resource` (None: any).

    First `delay` seconds pass; then the connection closes unanswered (`close`), or `status` is answered
    (401, 429 with `retry_after` seconds if given, 500, 503), or, with neither, the call is served as usual.
    """

    status: int | None = None
    retry_after: int | None = None
    delay: float = 0.0
    close: bool = False
    times: int = 1
    verb: str | None = None
    resource: str | None = None

    def __post_init__(self) -> None:
        if self.status not in {None, 401, 429, 500, 503}:
            raise ValueError(f"a fault answers 401, 429, 500 or 503, not {self.status}")

    def hits(self, call: Call) -> bool:
        return self.verb in {None, call.verb} and self.resource in {None, call.resource}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def take(faults: list[Fault], call: Call) -> Fault | None:
    """The first fault that matches, counted down in the list."""
    for index, fault in enumerate(faults):
        if fault.hits(call):
            if fault.times > 1:
                faults[index] = replace(fault, times=fault.times - 1)
            else:
                del faults[index]
            return fault
    return None
