"""Building the programs of a real cluster from their public sources: `python -m holdfast_cli.sandbox.cluster.build`.

Every program has a folder of its own in the cache, named by all that its content depends on. It is put there whole, by
one rename, so that a build that was killed leaves nothing to be mistaken for a program; the next one begins again and
finds most of the work in Go's own cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_cli.sandbox.cluster import toolchain
from holdfast_cli.sandbox.cluster.programs import MODULES, PROGRAMS, Program
from holdfast_cli.sandbox.errors import SandboxError

CACHE_VARIABLE: Final = "HOLDFAST_CLUSTER_CACHE"
ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
_FROM_ASSETS: Final = frozenset({"etcd", "kube-apiserver"})

ROOM: Final = 6 * 1024**3
"""Bytes of disk that a build from nothing needs: downloaded modules, Go's cache and the programs."""

_STRIPPED: Final = ("-s", "-w")
_SECONDS_BETWEEN_LINES: Final = 15.0
_LAST_WORDS: Final = 12

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Binary:
    """A program that is there, and how long building it took; 0 when it had been there before."""

    program: Program
    path: Path
    seconds: float
    source: str

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the programs are kept, outside the project: `HOLDFAST_CLUSTER_CACHE`, else the user's cache folder."""
    named = environment.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-cluster"


def built(program: Program, cache: Path) -> Path:
    """Where the program is, or would be, in the cache."""
    return cache / f"{program.name}-{program.version.removeprefix('v')}-{_key(program)}" / program.name


def missing(cache: Path, environment: Mapping[str, str] = os.environ) -> tuple[Program, ...]:
    """The programs that would have to be built."""
    return tuple(program for program in PROGRAMS if _found(program, cache, environment) is None)


def ensure(
    cache: Path,
    *,
    progress: Progress,
    environment: Mapping[str, str] = os.environ,
    programs: Sequence[Program] = PROGRAMS,
) -> Mapping[str, Binary]:
    """Every program by its name, built where it is missing.

    Raises:
        SandboxError: no Go, no room on the disk, a module that cannot be had, or a source that does not compile.
    """
    found = {program.name: _found(program, cache, environment) for program in programs}
    binaries = {name: binary for name, binary in found.items() if binary is not None}
    wanted = [program for program in programs if program.name not in binaries]
    if not wanted:
        return binaries
    _make_room(cache)
    with _alone(cache, progress):
        go = toolchain.find(cache, environment=environment, progress=progress)
        progress(
            f"Building {len(wanted)} of {len(programs)} programs with {go.version}; the first time takes a quarter of an hour"
        )
        for number, program in enumerate(wanted, 1):
            # Whoever held the lock before may have built it.
            binaries[program.name] = _found(program, cache, environment) or _build(
                program, cache, go, f"{number}/{len(wanted)}", environment, progress
            )
    return binaries


def _key(program: Program) -> str:
    parts = [program.go_mod, program.go_sum, program.package, *program.linked, *_STRIPPED, os.uname().machine]
    parts += [f"{item.file}\0{item.old}\0{item.new}" for item in program.substitutions]
    parts += program.folders
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _found(program: Program, cache: Path, environment: Mapping[str, str]) -> Binary | None:
    asset = _asset(program, environment)
    if asset is not None:
        return Binary(program, asset, 0.0, ASSETS_VARIABLE)
    path = built(program, cache)
    return Binary(program, path, 0.0, "cache") if path.is_file() else None


def _asset(program: Program, environment: Mapping[str, str]) -> Path | None:
    """The program in a folder the user keeps for such tests; its version is the user's affair and is printed."""
    folder = environment.get(ASSETS_VARIABLE)
    if not folder or program.name not in _FROM_ASSETS:
        return None
    path = Path(folder) / program.name
    if not path.is_file():
        raise SandboxError(
            f"{ASSETS_VARIABLE} is {folder}, but there is no {program.name} in it. Unset it, or put it there."
        )
    return path


def _make_room(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"the folder {cache} cannot be made: {error.strerror}. Set {CACHE_VARIABLE} to one that can be written."
        ) from error
    free = shutil.disk_usage(cache).free
    if free < ROOM:
        raise SandboxError(
            f"{cache} has {free / 1024**3:.1f} GB left, and a build from nothing needs {ROOM / 1024**3:.0f} GB. "
            f"Make room, or set {CACHE_VARIABLE} (and GOCACHE, GOMODCACHE) to a larger disk."
        )


@contextmanager
def _alone(cache: Path, progress: Progress) -> Iterator[None]:
    """One build at a time; what a killed one left half done is swept away."""
    with (cache / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.glob(".building-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _build(
    program: Program,
    cache: Path,
    go: toolchain.Go,
    position: str,
    environment: Mapping[str, str],
    progress: Progress,
) -> Binary:
    target = built(program, cache)
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    try:
        module = work / "module"
        shutil.copytree(MODULES / program.folder, module)
        settings = go.environment(environment)
        packages = _packages(program, module, go, settings, progress, position)
        output = work / "program"
        output.mkdir()
        if program.substitutions or program.folders:
            source = _source(program, module, work / "source", go, settings)
            for folder in program.folders:
                shutil.copytree(source / folder, output / Path(folder).name)
        if program.substitutions:
            _substitute(program, module, source)
        flags = " ".join([*_STRIPPED, *(f"-X {text}" for text in program.linked)])
        command = (
            *(str(go.path), "build", "-v", "-trimpath", "-mod=mod" if program.substitutions else "-mod=readonly"),
            *("-ldflags", flags, "-o", str(output / program.name), program.package),
        )
        _run(command, module, settings, f"{position} {program.name} {program.version}", packages, progress)
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target.parent, ignore_errors=True)
        output.rename(target.parent)
    except OSError as error:
        raise SandboxError(f"{program.name} could not be built in {cache}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    seconds = time.monotonic() - began
    binary = Binary(program, target, seconds, "built")
    progress(f"{position} {program.name} {program.version}: {seconds:.0f} s, {binary.size / 1e6:.0f} MB")
    return binary


def _packages(
    program: Program, module: Path, go: toolchain.Go, settings: Mapping[str, str], progress: Progress, position: str
) -> int:
    """How many Go packages the program is made of; its modules are downloaded on the way."""
    progress(f"{position} {program.name} {program.version}: downloading its modules")
    return len(_listed(program, module, go, settings, "-deps", program.package))


def _listed(
    program: Program, module: Path, go: toolchain.Go, settings: Mapping[str, str], *arguments: str
) -> list[str]:
    """The lines of `go list`."""
    done = subprocess.run(
        [str(go.path), "list", *arguments], cwd=module, env=dict(settings), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SandboxError(
            f"the modules of {program.name} {program.version} cannot be had. Go said:\n{_tail(done.stderr.splitlines())}\n"
            "Check that the Go module proxy can be reached (GOPROXY), then start again: nothing is built twice."
        )
    return done.stdout.splitlines()


def _source(program: Program, module: Path, target: Path, go: toolchain.Go, settings: Mapping[str, str]) -> Path:
    """A copy of the upstream module that may be changed."""
    (upstream,) = _listed(program, module, go, settings, "-m", "-f", "{{.Dir}}", program.module)
    shutil.copytree(upstream, target)
    for folder, _, files in os.walk(target):
        # The module cache is read-only, and so is a copy of it.
        Path(folder).chmod(0o755)
        for name in files:
            (Path(folder) / name).chmod(0o644)
    return target


def _substitute(program: Program, module: Path, source: Path) -> None:
    """Changes the copy, and makes the module file take it in place of the original."""
    for item in program.substitutions:
        path = source / item.file
        text = path.read_text()
        found = text.count(item.old)
        if found != item.times:
            raise SandboxError(
                f"{program.name} {program.version}: {item.file} has {found} times {item.old!r} instead of {item.times}. "
                f"Upstream changed; look again how to make it so that {item.why}."
            )
        path.write_text(text.replace(item.old, item.new))
    with (module / "go.mod").open("a") as file:
        file.write(f"\nreplace {program.module} => {source}\n")


def _run(
    command: Sequence[str],
    folder: Path,
    settings: Mapping[str, str],
    title: str,
    packages: int,
    progress: Progress,
) -> None:
    """Runs Go and says every quarter of a minute how far it is."""
    lines: list[str] = []
    told = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=dict(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if time.monotonic() - told >= _SECONDS_BETWEEN_LINES:
                    told = time.monotonic()
                    progress(f"{title}: {len(lines)} of up to {packages} packages")
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        words = [line for line in lines if not re.fullmatch(r"[\w.\-/@~]+", line)] or lines
        raise SandboxError(
            f"{title} could not be built. Go said:\n{_tail(words)}\nStart again: what was compiled is kept."
        )


def _tail(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines[-_LAST_WORDS:])


def main() -> int:
    """Builds what is missing and prints what there is; the exit code is 1 when something could not be built."""
    cache = cache_folder()
    began = time.monotonic()
    try:
        binaries = ensure(cache, progress=lambda line: print(line, flush=True))  # noqa: T201 - a build tool talks
    except SandboxError as error:
        print(f"{error}", file=sys.stderr)  # noqa: T201
        return 1
    for binary in binaries.values():
        print(  # noqa: T201
            f"{binary.program.name:24} {binary.program.version:9} {binary.size / 1e6:6.0f} MB  {binary.seconds:5.0f} s  "
            f"{binary.source}"
        )
    print(f"{len(binaries)} programs in {cache}, {time.monotonic() - began:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
