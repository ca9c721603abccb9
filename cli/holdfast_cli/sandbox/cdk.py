"""The CDK's real command line, the one of the project's `node_modules`, against the sandbox."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast_cli.sandbox import aws
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState, default_folder

OnLine = Callable[[str], None]


class CdkError(SandboxError):
    """The CDK's command line ended with an error; the message carries its last words."""


def bootstrap(sandbox: SandboxState, *, on_line: OnLine = print) -> None:
    """Make the account ready for deployments.

    Raises:
        CdkError: it failed.
    """
    # Outside any app: within one the CDK would synthesize it first, for nothing.
    _run(sandbox, sandbox.folder, ("bootstrap", f"aws://{sandbox.account}/{sandbox.region}"), on_line)


def deploy(sandbox: SandboxState, app_dir: Path, *arguments: str, on_line: OnLine = print) -> None:
    """Deploy every stack of the app, or change what differs; `arguments` go to the CDK as they are.

    Raises:
        CdkError: it failed.
    """
    run(
        sandbox,
        app_dir,
        *("deploy", "--all", "--require-approval", "never", "--progress", "events"),
        *arguments,
        on_line=on_line,
    )


def diff(sandbox: SandboxState, app_dir: Path, *arguments: str, on_line: OnLine = print) -> None:
    """Tell what a deployment would change.

    Raises:
        CdkError: it failed.
    """
    run(sandbox, app_dir, "diff", *arguments, on_line=on_line)


def destroy(sandbox: SandboxState, *arguments: str, on_line: OnLine = print) -> None:
    """Delete every stack as it was deployed last; the app is not asked again.

    Raises:
        CdkError: it failed, or nothing was deployed from here.
    """
    assembly = _assembly(sandbox)
    if not (assembly / "manifest.json").exists():
        raise CdkError(f"nothing was deployed into the sandbox yet ({assembly} is missing).")
    _run(sandbox, sandbox.folder, ("destroy", "--all", "--force", "--app", str(assembly), *arguments), on_line)


def run(sandbox: SandboxState, app_dir: Path, *arguments: str, on_line: OnLine = print) -> None:
    """Run `cdk` with these arguments in `app_dir`; each line it prints goes to `on_line` as it comes.

    The cloud assembly stays in the sandbox's folder, so a layer that did not change is not built again.

    Raises:
        CdkError: it could not be started or ended with an error.
    """
    _run(sandbox, app_dir, (*arguments, "--output", str(_assembly(sandbox))), on_line)


def _assembly(sandbox: SandboxState) -> Path:
    return sandbox.folder / "cdk.out"


def _run(sandbox: SandboxState, folder: Path, arguments: Sequence[str], on_line: OnLine) -> None:
    executable = default_folder().parent / "node_modules" / ".bin" / "cdk"
    if not executable.exists():
        raise CdkError(f"the CDK is not installed ({executable} is missing): run `npm ci` in the project.")
    command = [str(executable), *arguments, "--no-notices", "--no-color", "--no-version-reporting"]
    last: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        # The CDK asks Python for colours whatever its own output is.
        env={**aws.environment(sandbox), "NO_COLOR": "1", "PYTHON_COLORS": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            assert child.stdout is not None  # stdout=PIPE
            for line in child.stdout:
                on_line(line.rstrip("\n"))
                last = [*last[-14:], line.rstrip("\n")]
        except BaseException:
            # Ctrl-C does not reach another session; the app and its helpers are in the CDK's group.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            raise
    if child.returncode:
        words = "\n".join(f"  {line}" for line in last)
        raise CdkError(f"`cdk {' '.join(arguments)}` ended with code {child.returncode}:\n{words}")
