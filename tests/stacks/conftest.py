"""The templates of a few configurations, synthesized once a session and read from disk as CloudFormation gets them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.config import HoldfastConfig
from stacks import assembly
from stacks.config import load
from tests.stacks.templates import ROOT, SILENT, WIDE, Assembly


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Callable[[HoldfastConfig], Assembly]:
    def synthesized(config: HoldfastConfig) -> Assembly:
        folder = tmp_path_factory.mktemp("cdk") / "out"
        app = assembly.app_without_bundling(outdir=str(folder))
        names = list(assembly.build(app, config))
        app.synth()
        manifest = json.loads((folder / "manifest.json").read_text())
        return Assembly(
            config,
            folder,
            {name: json.loads((folder / f"{name}.template.json").read_text()) for name in names},
            tuple(_warnings(folder, manifest)),
        )

    return synthesized


def _warnings(folder: Path, manifest: Mapping[str, Any]) -> list[str]:
    found = []
    for artifact in manifest["artifacts"].values():
        metadata = dict(artifact.get("metadata", {}))
        if "additionalMetadataFile" in artifact:
            metadata |= json.loads((folder / artifact["additionalMetadataFile"]).read_text())
        found += [
            entry["data"] for entries in metadata.values() for entry in entries if entry["type"] == "aws:cdk:warning"
        ]
    return found


@pytest.fixture(scope="session")
def example(synthesize: Callable[[HoldfastConfig], Assembly]) -> Assembly:
    """The configuration in the repository."""
    return synthesize(load(ROOT / "holdfast.yaml"))


@pytest.fixture(scope="session")
def wide(synthesize: Callable[[HoldfastConfig], Assembly]) -> Assembly:
    """Every kind of cluster and setting."""
    return synthesize(HoldfastConfig.read(json.dumps(WIDE)))


@pytest.fixture(scope="session")
def silent(synthesize: Callable[[HoldfastConfig], Assembly]) -> Assembly:
    """Without Slack."""
    return synthesize(HoldfastConfig.read(json.dumps(SILENT)))
