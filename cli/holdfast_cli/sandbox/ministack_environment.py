"""MiniStack's own Python environment. It holds nothing else: its packages leak into the functions it runs."""

import fcntl
import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import default_folder

_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_PYTHON = (3, 13)  # the functions run in it, so it is Lambda's Python


def default_environment() -> Path:
    """Where MiniStack is installed: in the project's own sandbox folder, for every sandbox of the project."""
    return default_folder() / "ministack-venv"


def ensure(environment: Path, *, progress: Callable[[str], None]) -> Path:
    """The interpreter of an environment that holds exactly the locked MiniStack, which is built if need be.

    Raises:
        SandboxError: wrong Python, or the packages could not be installed; then with pip's last words.
    """
    if sys.version_info[:2] != _PYTHON:
        raise SandboxError(
            f"the sandbox runs the functions in Python {_PYTHON[0]}.{_PYTHON[1]}, but this is Python "
            f"{sys.version_info[0]}.{sys.version_info[1]}. Create .venv with Python 3.13."
        )
    interpreter = environment / "bin" / "python"
    stamp = environment / "holdfast-lock"
    environment.parent.mkdir(parents=True, exist_ok=True)
    with environment.with_name(f"{environment.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = f"{hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()} {sys.version}"
        if stamp.exists() and stamp.read_text("utf-8") == wanted and interpreter.exists():
            return interpreter
        shutil.rmtree(environment, ignore_errors=True)
        progress(f"Installing MiniStack into {environment} (once; later starts take a second)")
        _run(sys.executable, "-m", "venv", environment)
        _run(interpreter, "-I", "-m", "pip", "install", *_PIP_OPTIONS, "--requirement", _REQUIREMENTS)
        _run(interpreter, "-I", "-m", "pip", "uninstall", "--yes", "--quiet", "pip")
        stamp.write_text(wanted, "utf-8")
    return interpreter


_PIP_OPTIONS = (
    "--require-hashes",
    "--no-deps",
    "--only-binary=:all:",
    "--quiet",
    "--disable-pip-version-check",
)


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        words = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-15:])
        raise SandboxError(
            "MiniStack's environment could not be built. "
            f"`{shlex.join(str(part) for part in command)}` said:\n{words}\n"
            "Check that the package index can be reached, then start the sandbox again."
        )
