"""What goes into the Lambda layers and functions, built without Docker and the same byte for byte everywhere.

Four kinds of content: the dependency layer (wheels for the function's platform, pruned, precompiled), the
``holdfast`` layer (this project's package, precompiled), the configuration layer (one JSON file) and the code
of a function.

Lambda unpacks with a timestamp of 1980 into a read-only folder, so ordinary ``.pyc`` files are always stale
there and cost more than none. These are compiled with ``unchecked-hash``: they are used as they are.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling, Token, aws_lambda

ROOT = Path(__file__).resolve().parents[1]
DEPENDENCIES = ROOT / "layers" / "dependencies"
HOLDFAST = ROOT / "layers" / "holdfast" / "python"
FUNCTIONS = ROOT / "lambdas"
CACHE = ROOT / "build" / "layers"

PYTHON = (3, 13)
"""The runtime's version. The Python that builds must have it too: bytecode of another version is ignored."""

UNZIPPED_LIMIT = 120_000_000
"""Bytes all layers may have together, unpacked. Lambda's own limit is 250 MB; half of it is left free."""

CONFIG_FILE = "python/holdfast_config/config.json"
"""The configuration layer's only file: on the import path, so it is found wherever a layer is unpacked."""


class BundlingError(Exception):
    """A layer or function could not be built. The message names the file or package and the way out."""


class Architecture(StrEnum):
    """The two machines Lambda offers, in the words of ``holdfast.yaml`` and of Lambda."""

    ARM64 = "arm64"
    X86_64 = "x86_64"


# Wheel tags that Amazon Linux 2023 (glibc 2.34) can load. pip does not widen one tag to the other: name both.
_WHEEL_PLATFORMS = {
    Architecture.ARM64: ("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    Architecture.X86_64: ("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
}
# e_machine of the ELF header: EM_AARCH64 and EM_X86_64 of elf.h.
_ELF_MACHINE = {Architecture.ARM64: 183, Architecture.X86_64: 62}
# What platform.machine() says for each.
_HOST_MACHINE = {
    "aarch64": Architecture.ARM64,
    "arm64": Architecture.ARM64,
    "x86_64": Architecture.X86_64,
    "AMD64": Architecture.X86_64,
}
_NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def lambda_architecture(architecture: str) -> aws_lambda.Architecture:
    """The CDK's object for an architecture of the configuration. Raises BundlingError for any other word."""
    return {
        Architecture.ARM64: aws_lambda.Architecture.ARM_64,
        Architecture.X86_64: aws_lambda.Architecture.X86_64,
    }[_architecture(architecture)]


def host_architecture() -> Architecture:
    """This machine's architecture, for functions that run on it. BundlingError if Lambda has none such."""
    machine = platform.machine()
    if machine not in _HOST_MACHINE:
        raise BundlingError(f"this machine is a {machine}; Lambda has only {_words(Architecture)}")
    return _HOST_MACHINE[machine]


# ---- CDK code assets ----


def dependencies_layer_code(architecture: str) -> aws_lambda.Code:
    """The layer with all third-party packages, for one architecture."""
    machine = _architecture(architecture)
    return _code(
        DEPENDENCIES,
        dependencies_fingerprint(machine),
        lambda output: _copy(built_dependencies(machine), output),
    )


def holdfast_layer_code() -> aws_lambda.Code:
    """The layer with the ``holdfast`` package; it has no machine code, so it fits both architectures."""
    return _code(HOLDFAST, _fingerprint(*_tree(HOLDFAST)), build_holdfast)


def config_layer_code(json_text: str) -> aws_lambda.Code:
    """The layer with the resolved configuration. Raises BundlingError for a CDK token or what is not JSON."""
    _check_config(json_text)
    return _code(
        DEPENDENCIES,  # The CDK wants a source folder; the content comes from the text alone.
        _fingerprint(("config", json_text.encode())),
        lambda output: build_config(json_text, output),
    )


def function_code(name: str) -> aws_lambda.Code:
    """The code of ``lambdas/<name>``, for ``handler.lambda_handler``. BundlingError if there is none."""
    source = _function_source(name)
    return _code(source, _fingerprint(*_tree(source)), lambda output: build_function(name, output))


# ---- Builders: each fills an empty folder with what Lambda unpacks ----


def build_dependencies(architecture: str, output: Path) -> None:
    """Fill ``output`` with the dependency layer. Raises BundlingError; needs a package index or pip's cache.

    Refuses a library for another machine, a prune glob that matches nothing, and a layer over UNZIPPED_LIMIT.
    """
    machine = _architecture(architecture)
    _check_python()
    target = output / "python"
    _pip_install(machine, target)
    prune(target, read_prune_list((DEPENDENCIES / "prune.txt").read_text(encoding="utf-8")))
    check_machine(target, machine)
    _compile(output, installed_at="/opt")
    _normalise(output)
    check_size(output)


def build_holdfast(output: Path) -> None:
    """Fill ``output`` with the ``holdfast`` layer. Raises BundlingError if a module does not compile."""
    _check_python()
    _copy(HOLDFAST, output / "python")
    _compile(output, installed_at="/opt")
    _normalise(output)


def build_config(json_text: str, output: Path) -> None:
    """Fill ``output`` with the configuration layer. Raises BundlingError as config_layer_code does."""
    _check_config(json_text)
    file = output / CONFIG_FILE
    file.parent.mkdir(parents=True)
    file.write_text(json_text, encoding="utf-8")
    _normalise(output)


def build_function(name: str, output: Path) -> None:
    """Fill ``output`` with the code of ``lambdas/<name>``. Raises BundlingError if there is none."""
    _check_python()
    _copy(_function_source(name), output)
    _compile(output, installed_at="/var/task")
    _normalise(output)


def built_dependencies(architecture: str) -> Path:
    """A folder with the dependency layer, built at most once for the same lock, prune list and rules.

    Synth, tests and benchmarks share it. Processes that ask at the same time wait for one build.
    """
    machine = _architecture(architecture)
    built = CACHE / f"dependencies-{machine}-{dependencies_fingerprint(machine)[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"dependencies-{machine}.lock"):
        if not built.exists():
            sys.stderr.write(f"Building the dependency layer for {machine} (once, about half a minute) ...\n")
            for stale in CACHE.glob(f"dependencies-{machine}-*"):
                shutil.rmtree(stale)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                build_dependencies(machine, Path(folder) / "layer")
                (Path(folder) / "layer").rename(built)  # Whole or not there: a stopped build leaves nothing.
    return built


def dependencies_fingerprint(architecture: str) -> str:
    """One hash of all the dependency layer comes from: lock, prune list, this file, Python, architecture."""
    machine = _architecture(architecture)
    return _fingerprint(
        *((name, (DEPENDENCIES / name).read_bytes()) for name in ("requirements.txt", "prune.txt")),
        ("architecture", machine.encode()),
    )


# ---- The steps ----


@dataclass(frozen=True, slots=True)
class PruneRule:
    """One line of prune.txt: a glob under ``python/`` that is taken out, or kept despite an earlier one."""

    glob: str
    keep: bool
    reason: str


def read_prune_list(text: str) -> list[PruneRule]:
    """The rules of prune.txt. Raises BundlingError for a line without a reason."""
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(?P<keep>!?)(?P<glob>\S+)\s+#\s*(?P<reason>\S.*)", line)
        if match is None:
            raise BundlingError(f'prune.txt line {number}: "{line}" must read: GLOB  # REASON')
        rules.append(PruneRule(match["glob"], keep=bool(match["keep"]), reason=match["reason"]))
    return rules


def prune(folder: Path, rules: list[PruneRule]) -> None:
    """Take out of ``folder`` what the rules say. Raises BundlingError for a glob that matches nothing."""
    doomed: set[Path] = set()
    for rule in rules:
        found = set(folder.glob(rule.glob))
        if not found:
            raise BundlingError(f"prune.txt: {rule.glob} matches nothing in the layer; correct or remove the line")
        doomed = doomed - found if rule.keep else doomed | found
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # Its folder may have gone before it.


def check_machine(folder: Path, architecture: str) -> None:
    """Make sure every ELF file is for ``architecture``. Raises BundlingError naming those that are not."""
    wanted = _ELF_MACHINE[_architecture(architecture)]
    wrong = {path: machine for path in _files(folder) if (machine := _elf_machine(path)) not in (None, wanted)}
    if wrong:
        listed = ", ".join(f"{path.relative_to(folder)} (ELF machine {wrong[path]})" for path in sorted(wrong))
        raise BundlingError(f"not for {architecture}: {listed}; remove the build folder and build again")


def check_size(*folders: Path) -> None:
    """Make sure the layers together fit UNZIPPED_LIMIT. Raises BundlingError with the largest packages."""
    size = sum(unzipped_size(folder) for folder in folders)
    if size > UNZIPPED_LIMIT:
        packages = [path for folder in folders for path in (folder / "python").iterdir()]
        largest = sorted(packages, key=unzipped_size, reverse=True)[:5]
        listed = ", ".join(f"{path.name} {unzipped_size(path) / 1e6:.0f} MB" for path in largest)
        raise BundlingError(
            f"{size / 1e6:.0f} MB of layers, the limit is {UNZIPPED_LIMIT / 1e6:.0f} MB unzipped; "
            f"add what is not needed to layers/dependencies/prune.txt. Largest: {listed}"
        )


def unzipped_size(path: Path) -> int:
    """Bytes in a file or in all files below a folder, as Lambda counts them."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in _files(path))


def _pip_install(architecture: Architecture, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet"]
    command += ["--requirement", str(DEPENDENCIES / "requirements.txt"), "--require-hashes", "--no-deps"]
    command += ["--target", str(target), "--no-compile", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", ".".join(map(str, PYTHON))]
    command += [word for tag in _WHEEL_PLATFORMS[architecture] for word in ("--platform", tag)]
    settings = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(  # noqa: S603 - a fixed command
        command, env=os.environ | settings, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BundlingError(
            f"pip could not install layers/dependencies/requirements.txt for {architecture}. "
            "Is the package index reachable, and has each package a wheel for that platform?\n"
            + done.stderr.strip()[-2000:]
        )


def _compile(output: Path, *, installed_at: str) -> None:
    """Compile in a process of its own: what this one has interned would show in the bytes of constants."""
    command = [sys.executable, "-P", "-m", "compileall", "-q", "-s", str(output), "-p", installed_at]
    command += ["--invalidation-mode", "unchecked-hash", str(output)]
    done = subprocess.run(  # noqa: S603 - a fixed command
        command, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BundlingError(f"Python {PYTHON[0]}.{PYTHON[1]} cannot compile all of {output}:\n{done.stdout.strip()}")


def _normalise(output: Path) -> None:
    """Same modes and times whoever builds: under umask 077 a function could not read its own code."""
    for path in [output, *output.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (315532800, 315532800))  # 1980-01-01, the first day a zip file knows


def _elf_machine(path: Path) -> int | None:
    with path.open("rb") as file:
        header = file.read(20)
    if header[:4] != b"\x7fELF":
        return None
    machine: int = struct.unpack_from("<H", header, 18)[0]  # e_machine; both architectures are little-endian
    return machine


def _check_python() -> None:
    if sys.version_info[:2] != PYTHON:
        raise BundlingError(
            f"layers are compiled for Python {PYTHON[0]}.{PYTHON[1]}, this is {platform.python_version()}; "
            "run with .venv/bin/python (make setup)"
        )


def _check_config(json_text: str) -> None:
    if Token.is_unresolved(json_text):
        raise BundlingError("the configuration layer is written at synth: values CloudFormation resolves go elsewhere")
    try:
        json.loads(json_text)
    except ValueError as error:
        raise BundlingError(f"the configuration layer holds one JSON document: {error}") from error


def _function_source(name: str) -> Path:
    source = FUNCTIONS / name
    if not (source / "handler.py").is_file():
        there = ", ".join(sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py")))
        raise BundlingError(f"no function lambdas/{name}/handler.py; there are: {there}")
    return source


def _architecture(architecture: str) -> Architecture:
    try:
        return Architecture(architecture)
    except ValueError as error:
        raise BundlingError(f'architecture "{architecture}" must be one of {_words(Architecture)}') from error


def _words(words: type[StrEnum]) -> str:
    return ", ".join(words)


def _copy(source: Path, output: Path) -> None:
    shutil.copytree(source, output, dirs_exist_ok=True, ignore=None if source.is_relative_to(CACHE) else _NOT_SOURCE)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _tree(folder: Path) -> list[tuple[str, bytes]]:
    """Name and content of each source file, in one order on every machine."""
    files = sorted(path.relative_to(folder) for path in _files(folder))
    return [
        (path.as_posix(), (folder / path).read_bytes())
        for path in files
        if path.suffix != ".pyc" and not any(part.startswith(".") for part in path.parts)
    ]


def _fingerprint(*inputs: tuple[str, bytes]) -> str:
    """A hash of the inputs and of the rules they are built by."""
    rules = [("bundling.py", Path(__file__).read_bytes()), ("python", repr(PYTHON).encode())]
    digest = hashlib.sha256()
    for name, content in rules + list(inputs):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # Let go when the file is closed, also when the process is killed.
        yield


@jsii.implements(ILocalBundling)
class _LocalBundling:
    """Runs a builder in this process. It raises on failure: after a False the CDK would look for Docker."""

    def __init__(self, build: Callable[[Path], None]) -> None:
        self._build = build

    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        self._build(Path(output_dir))
        return True


def _code(source: Path, fingerprint: str, build: Callable[[Path], None]) -> aws_lambda.Code:
    return aws_lambda.Code.from_asset(
        str(source),
        asset_hash=fingerprint,
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(
            image=DockerImage.from_registry("docker-is-not-used"),
            local=_LocalBundling(build),
        ),
    )
