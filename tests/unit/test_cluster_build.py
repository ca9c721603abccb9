"""The programs of a real cluster: versions, places in the cache, and what is said where one cannot be had."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast_cli.sandbox.cluster import build, toolchain
from holdfast_cli.sandbox.cluster.programs import MODULES, PROGRAMS, Substitution
from holdfast_cli.sandbox.errors import SandboxError

BY_NAME = {program.name: program for program in PROGRAMS}
KARPENTER = BY_NAME["karpenter"]


def test_versions_are_those_that_the_module_files_require() -> None:
    versions = {name: program.version for name, program in BY_NAME.items()}

    assert versions["kube-apiserver"] == versions["kube-scheduler"] == "v1.36.3"
    assert (versions["etcd"], versions["karpenter"]) == ("v3.6.16", "v1.14.1")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_each_program_is_a_tool_of_its_module_and_every_module_is_pinned(program) -> None:
    assert re.search(rf"^(tool )?\s*{re.escape(program.package)}$", program.go_mod, re.MULTILINE)
    assert f"{program.module} {program.version} h1:" in program.go_sum


def test_karpenter_is_told_its_version_without_the_v() -> None:
    assert KARPENTER.linked == ("sigs.k8s.io/karpenter/pkg/operator.Version=1.14.1",)


def test_a_program_built_in_another_way_has_another_place_in_the_cache(tmp_path: Path) -> None:
    other = replace(KARPENTER, substitutions=(*KARPENTER.substitutions, Substitution("a.go", "x", "y", "it differs")))

    assert build.built(other, tmp_path) != build.built(KARPENTER, tmp_path)
    assert build.built(KARPENTER, tmp_path).name == "karpenter"


def test_what_is_in_the_cache_is_not_built_again(tmp_path: Path) -> None:
    for program in PROGRAMS:
        path = build.built(program, tmp_path)
        path.parent.mkdir(parents=True)
        path.write_text("program")

    found = build.ensure(tmp_path, progress=pytest.fail, environment={})

    assert {name: binary.source for name, binary in found.items()} == dict.fromkeys(BY_NAME, "cache")
    assert build.missing(tmp_path, {}) == ()


def test_the_users_own_etcd_and_apiserver_are_taken(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text("program")
    own = {"KUBEBUILDER_ASSETS": str(tmp_path)}

    found = build.ensure(tmp_path, progress=pytest.fail, environment=own, programs=[BY_NAME["etcd"]])

    assert found["etcd"].path == tmp_path / "etcd"
    assert {program.name for program in build.missing(tmp_path / "cache", own)} == set(BY_NAME) - {
        "etcd",
        "kube-apiserver",
    }


def test_a_folder_of_own_programs_without_them_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=f"KUBEBUILDER_ASSETS is {tmp_path}, but there is no etcd in it"):
        build.missing(tmp_path, {"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_a_disk_that_is_too_full_is_an_error_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "ROOM", 10**18)

    with pytest.raises(SandboxError, match="a build from nothing needs"):
        build.ensure(tmp_path, progress=lambda _: None, environment={"PATH": ""})


def test_the_cache_is_where_the_user_says(tmp_path: Path) -> None:
    assert build.cache_folder({"HOLDFAST_CLUSTER_CACHE": str(tmp_path)}) == tmp_path
    assert build.cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "holdfast-cluster"


def test_a_source_that_upstream_changed_is_an_error_that_says_what_for(tmp_path: Path) -> None:
    (tmp_path / "kwok" / "ec2").mkdir(parents=True)
    (tmp_path / "kwok" / "ec2" / "ec2.go").write_text("package ec2")

    with pytest.raises(SandboxError, match=r"karpenter v1\.14\.1: kwok/ec2/ec2\.go has 0 times .* Upstream changed"):
        build._substitute(KARPENTER, tmp_path, tmp_path)


def test_the_oldest_go_is_the_newest_that_a_module_asks_for() -> None:
    asked = [
        tuple(int(part) for part in re.search(r"^go ([\d.]+)$", path.read_text(), re.MULTILINE)[1].split("."))
        for path in sorted(MODULES.glob("*/go.mod"))
    ]

    assert max(asked) <= toolchain.OLDEST
