"""Where a reader of an alert goes on: the runbook's section, the dashboard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Links:
    """URLs from the configuration and of the deployment, None where there is none; never made of an alert's own text."""

    runbook_url: str | None = None
    dashboard_url: str | None = None

    def section(self, anchor: str) -> str | None:
        """The runbook's section; None when nobody said where the runbook is, or the alert has none."""
        return f"{self.runbook_url}#{anchor}" if self.runbook_url and anchor else None
