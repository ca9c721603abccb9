"""The layers are what Lambda needs: right machine, precompiled, small, the same wherever they are built."""

import ast
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_cdk import App, Stack, Token, aws_lambda

from stacks import bundling
from stacks.bundling import Architecture, BundlingError, PruneRule

ELF_HEADER = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00"  # 64 bit, little-endian, a shared object
AARCH64, X86_64 = b"\xb7\x00", b"\x3e\x00"  # 183 and 62
UNCHECKED_HASH = b"\x01\x00\x00\x00"  # PEP 552: bit 0 hash-based, bit 1 (checked against the source) not set


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    """Content and mode of every file and folder."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder",
            stat.S_IMODE(path.stat().st_mode),
        )
        for path in folder.rglob("*")
    }


def run_from_layers(program: str, *layers: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that sees the standard library and the layers, nothing else."""
    path = [str(layer / "python") for layer in layers]
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", f"import sys; sys.path[:0] = {path}\n{program}"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def host_layer() -> Path:
    return bundling.built_dependencies(bundling.host_architecture())


@pytest.fixture
def umask_077() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


# ---- The dependency layer as it is built ----


@pytest.mark.timeout(300)
@pytest.mark.parametrize("architecture", list(Architecture))
def test_both_architectures_have_libraries_for_their_own_machine_and_fit_the_limit(
    architecture: Architecture,
) -> None:
    layer = bundling.built_dependencies(architecture)
    libraries = list(layer.rglob("*.so"))

    assert {path.parent.name for path in libraries} >= {"pydantic_core", "yaml"}
    bundling.check_machine(layer, architecture)
    bundling.check_size(layer)


@pytest.mark.timeout(300)
def test_two_builds_are_the_same_byte_for_byte_whatever_the_folder_and_the_umask(
    host_layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask_077: None
) -> None:
    monkeypatch.chdir(tmp_path)

    bundling.build_dependencies(bundling.host_architecture(), tmp_path / "again")

    assert tree(tmp_path / "again") == tree(host_layer)


def test_every_module_is_precompiled_never_to_be_checked_and_traced_to_where_lambda_puts_it(
    host_layer: Path,
) -> None:
    modules = list(host_layer.rglob("*.py"))
    compiled = list(host_layer.rglob("*.cpython-313.pyc"))

    assert len(modules) == len(compiled) > 1000
    assert {path.read_bytes()[4:8] for path in compiled} == {UNCHECKED_HASH}
    assert b"/opt/python/boto3/session.py" in next(
        path.read_bytes() for path in compiled if path.match("boto3/__pycache__/session.*")
    )
    assert not [path for path in compiled if str(bundling.ROOT).encode() in path.read_bytes()]


def test_what_the_functions_import_survives_the_pruning(host_layer: Path) -> None:
    program = """
import boto3, pydantic, requests, slack_sdk.webhook, urllib3, yaml
import aws_lambda_powertools.metrics, aws_lambda_powertools.utilities.batch
import aws_lambda_powertools.utilities.data_classes, aws_lambda_powertools.utilities.parser
import kubernetes.client, kubernetes.dynamic
from kubernetes.client import CoreV1Api, CustomObjectsApi
assert "aiohttp" not in sys.modules
"""
    done = run_from_layers(program, host_layer)

    assert done.stderr == ""


def test_the_layer_has_the_time_zones_itself(host_layer: Path) -> None:
    program = "import zoneinfo; zoneinfo.reset_tzpath(to=()); zoneinfo.ZoneInfo('Europe/Berlin')"

    assert run_from_layers(program, host_layer).stderr == ""


def kept_services() -> set[str]:
    rules = bundling.read_prune_list((bundling.DEPENDENCIES / "prune.txt").read_text())
    return {rule.glob.rsplit("/", 1)[1] for rule in rules if rule.keep and "botocore/data/" in rule.glob}


def test_a_client_of_every_kept_service_can_be_made_from_the_layer(host_layer: Path) -> None:
    clients = [
        f"boto3.client({name!r}, region_name='eu-central-1').meta.service_model.operation_names[0]"
        for name in sorted(kept_services())
    ]
    done = run_from_layers("import boto3\n" + "\n".join(clients), host_layer)

    assert len(clients) >= 5
    assert done.stderr == ""


def clients_made(source: str) -> set[str]:
    """The services named in calls of ``….client("service", …)``."""
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "client"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def test_calls_that_make_a_client_are_recognised() -> None:
    assert clients_made('boto3.client("fis"); session.client("s3", region_name=r); x.client(y)') == {
        "fis",
        "s3",
    }


def test_the_layer_keeps_every_service_that_the_package_makes_a_client_of() -> None:
    sources = [path.read_text() for path in bundling.HOLDFAST.rglob("*.py")]
    made = set().union(*map(clients_made, sources))

    assert made <= kept_services(), "add a ! line with a reason to layers/dependencies/prune.txt"


# ---- The steps refuse what is wrong ----


def test_a_library_for_another_machine_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "right.so").write_bytes(ELF_HEADER + AARCH64)
    (tmp_path / "wrong.so").write_bytes(ELF_HEADER + X86_64)
    (tmp_path / "no_library").write_bytes(b"\x7fEL")

    with pytest.raises(BundlingError, match=r"not for arm64: wrong\.so \(ELF machine 62\)"):
        bundling.check_machine(tmp_path, Architecture.ARM64)
    with pytest.raises(BundlingError, match=r"not for x86_64: right\.so \(ELF machine 183\)"):
        bundling.check_machine(tmp_path, Architecture.X86_64)


def test_layers_over_the_limit_are_refused_with_the_largest_packages(tmp_path: Path) -> None:
    for layer, package, size in [("a", "small", 1), ("a", "half", 60_000_000), ("b", "other", 60_000_000)]:
        file = tmp_path / layer / "python" / package / "data"
        file.parent.mkdir(parents=True)
        with file.open("wb") as sparse:
            sparse.truncate(size)

    bundling.check_size(tmp_path / "a")
    with pytest.raises(BundlingError, match=r"limit is 120 MB unzipped.*half 60 MB, other 60 MB, small 0 MB"):
        bundling.check_size(tmp_path / "a", tmp_path / "b")


def test_the_prune_list_takes_and_keeps_with_reasons() -> None:
    text = "# a comment\n\nbotocore/data/*/  # unused\n!botocore/data/sqs   # … but the queues\n"

    assert bundling.read_prune_list(text) == [
        PruneRule("botocore/data/*/", keep=False, reason="unused"),
        PruneRule("botocore/data/sqs", keep=True, reason="… but the queues"),
    ]


@pytest.mark.parametrize("line", ["kubernetes/aio", "kubernetes/aio #", "two words # reason"])
def test_a_prune_line_without_a_reason_is_refused(line: str) -> None:
    with pytest.raises(BundlingError, match=r"line 1: .* must read: GLOB {2}# REASON"):
        bundling.read_prune_list(line)


def test_pruning_takes_folders_and_files_and_keeps_what_an_exception_names(tmp_path: Path) -> None:
    for file in ["data/sqs/model", "data/iot/model", "data/endpoints", "bin/tool"]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    rules = bundling.read_prune_list("data/*/ # r\n!data/sqs # r\nbin # r\nbin/tool # r\n")

    bundling.prune(tmp_path, rules)

    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"data/sqs/model", "data/endpoints"}


def test_a_prune_glob_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundlingError, match=r"kubernetes/aoi matches nothing"):
        bundling.prune(tmp_path, [PruneRule("kubernetes/aoi", keep=False, reason="r")])


def test_a_build_with_another_python_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bundling, "PYTHON", (3, 99))

    with pytest.raises(BundlingError, match=r"compiled for Python 3\.99, this is 3\.13"):
        bundling.build_holdfast(tmp_path)


def test_an_unknown_architecture_is_refused_with_those_there_are() -> None:
    with pytest.raises(BundlingError, match='"amd64" must be one of arm64, x86_64'):
        bundling.lambda_architecture("amd64")


def test_a_host_that_lambda_has_nothing_like_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")

    with pytest.raises(BundlingError, match="riscv64; Lambda has only arm64, x86_64"):
        bundling.host_architecture()


def test_a_requirement_that_pip_cannot_install_stops_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("boto3==1.44.8\n")  # without its hash
    monkeypatch.setattr(bundling, "DEPENDENCIES", tmp_path)

    with pytest.raises(BundlingError, match=r"pip could not install .* for arm64(.|\n)*--require-hashes"):
        bundling.build_dependencies(Architecture.ARM64, tmp_path / "layer")


def test_a_module_that_does_not_compile_stops_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "broken.py").write_text("def f(:\n")
    monkeypatch.setattr(bundling, "HOLDFAST", tmp_path / "source")

    with pytest.raises(BundlingError, match=r"cannot compile(.|\n)*broken\.py"):
        bundling.build_holdfast(tmp_path / "layer")


# ---- Our own layers and functions ----


def test_the_holdfast_layer_is_the_package_precompiled_and_the_same_each_time(tmp_path: Path, umask_077: None) -> None:
    bundling.build_holdfast(tmp_path / "one")
    bundling.build_holdfast(tmp_path / "two")

    files = tree(tmp_path / "one")
    assert files == tree(tmp_path / "two")
    assert "python/holdfast/__pycache__/__init__.cpython-313.pyc" in files
    assert {mode for _, mode in files.values()} == {0o755, 0o644}
    assert not [name for name in files if name.endswith(".pyc") and "cpython-313.pyc" not in name]


def test_the_configuration_layer_is_read_as_package_data_wherever_it_is_unpacked(tmp_path: Path) -> None:
    bundling.build_config('{"clusters": ["übersee"]}', tmp_path)

    program = """
import importlib.resources, json
text = importlib.resources.files("holdfast_config").joinpath("config.json").read_text("utf-8")
assert json.loads(text) == {"clusters": ["\\u00fcbersee"]}
"""
    assert run_from_layers(program, tmp_path).stderr == ""
    assert set(tree(tmp_path)) == {"python", "python/holdfast_config", "python/holdfast_config/config.json"}


def test_a_configuration_that_is_not_json_or_not_known_at_synth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundlingError, match="one JSON document"):
        bundling.config_layer_code("clusters: [a]")
    with pytest.raises(BundlingError, match="written at synth"):
        bundling.build_config(json.dumps(Token.as_string({"Ref": "Queue"})), tmp_path)


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of functions with one in it, and what a test run leaves beside it."""
    folder = tmp_path / "lambdas"
    (folder / "notifier" / "__pycache__").mkdir(parents=True)
    (folder / "notifier" / "handler.py").write_text("def lambda_handler(event, context): ...\n")
    (folder / "notifier" / "__pycache__" / "handler.cpython-311.pyc").touch()
    monkeypatch.setattr(bundling, "FUNCTIONS", folder)
    return folder


def test_a_function_is_its_folder_precompiled_without_what_a_test_run_left(functions: Path, tmp_path: Path) -> None:
    bundling.build_function("notifier", tmp_path / "code")

    assert set(tree(tmp_path / "code")) == {
        "handler.py",
        "__pycache__",
        "__pycache__/handler.cpython-313.pyc",
    }


def test_a_function_that_is_not_there_is_refused_with_those_there_are(functions: Path) -> None:
    with pytest.raises(BundlingError, match=r"no function lambdas/notifer/handler\.py; there are: notifier"):
        bundling.function_code("notifer")


# ---- Through the CDK ----


def synthesize(output: Path, codes: list[aws_lambda.Code], **context: object) -> dict[str, Path]:
    """The asset folder of each layer version, by its logical id."""
    app = App(outdir=str(output), context=context)
    stack = Stack(app, "Layers")
    for number, code in enumerate(codes):
        aws_lambda.LayerVersion(stack, f"Layer{number}", code=code)
    app.synth()
    template = json.loads((output / "Layers.template.json").read_text())
    return {
        name: output / f"asset.{resource['Properties']['Content']['S3Key'].removesuffix('.zip')}"
        for name, resource in template["Resources"].items()
    }


@pytest.mark.timeout(300)
def test_the_cdk_bundles_every_kind_of_content_without_docker(functions: Path, tmp_path: Path) -> None:
    def codes() -> list[aws_lambda.Code]:
        return [
            bundling.dependencies_layer_code(bundling.host_architecture()),
            bundling.holdfast_layer_code(),
            bundling.config_layer_code("{}"),
            bundling.function_code("notifier"),
        ]

    first = synthesize(tmp_path / "one", codes())
    (functions / "notifier" / "__pycache__" / "other.pyc").touch()
    second = synthesize(tmp_path / "two", codes())

    assert len(set(first.values())) == 4
    assert [path.name for path in first.values()] == [path.name for path in second.values()]
    for one, two in zip(first.values(), second.values(), strict=True):
        assert tree(one) == tree(two) != {}


def test_a_change_of_content_changes_the_asset(functions: Path, tmp_path: Path) -> None:
    before = synthesize(tmp_path / "one", [bundling.function_code("notifier")])
    (functions / "notifier" / "handler.py").write_text("def lambda_handler(event, context): return 1\n")
    after = synthesize(tmp_path / "two", [bundling.function_code("notifier")])

    assert [path.name for path in before.values()] != [path.name for path in after.values()]


def test_a_failing_build_fails_the_synth_and_never_asks_for_docker(functions: Path, tmp_path: Path) -> None:
    code = bundling.function_code("notifier")
    (functions / "notifier" / "handler.py").unlink()

    with pytest.raises(Exception, match="no function lambdas/notifier"):
        synthesize(tmp_path, [code])


def test_bundling_can_be_skipped_for_tests_of_templates(tmp_path: Path) -> None:
    context: dict[str, object] = {"aws:cdk:bundling-stacks": []}
    layers = synthesize(
        tmp_path, [bundling.dependencies_layer_code("arm64"), bundling.holdfast_layer_code()], **context
    )

    assert len(layers) == 2
    assert not list(tmp_path.rglob("*.pyc"))
