"""The `holdfast` command: what the commands have in common, and where each of them is."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.errors import HoldfastError
from holdfast_cli import config, doctor, interruptions, redrive, render, replay
from holdfast_cli.errors import ExitCode, exit_code
from holdfast_cli.output import error_console, plain
from holdfast_cli.sandbox import commands as sandbox
from holdfast_cli.sandbox.errors import SandboxError

_EPILOG = "**Exit codes**\n\n" + "\n".join(f"- {code.value}: {code.meaning}" for code in ExitCode)


class _Commands(TyperGroup):
    """Ends every run with a documented exit code and a message in place of a stack trace."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; errors become a message on standard error and an exit code."""
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            _explain(str(error))
            raise typer.Exit(exit_code(error)) from error
        except SandboxError as error:
            _explain(str(error))
            raise typer.Exit(ExitCode.UNREACHABLE) from error
        except KeyboardInterrupt as error:
            _explain("Interrupted.")
            raise typer.Exit(ExitCode.INTERRUPTED) from error
        except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _explain(
                f"This is a defect in Holdfast: {type(error).__name__}: {error}\n"
                "Run the same command as `holdfast --debug ...` and attach what it prints to a bug report."
            )
            raise typer.Exit(ExitCode.DEFECT) from error


app = typer.Typer(
    cls=_Commands,
    name="holdfast",
    no_args_is_help=True,
    epilog=_EPILOG,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(interruptions.app, name="interruptions")
app.command("doctor")(doctor.doctor)
app.command("redrive")(redrive.redrive)
app.add_typer(replay.app, name="replay")
app.add_typer(render.app, name="render")
app.add_typer(config.app, name="config")
app.add_typer(sandbox.app, name="sandbox")


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"holdfast {importlib.metadata.version('holdfast')}\n")
        raise typer.Exit


@app.callback()
def holdfast(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of a defect in Holdfast.")] = False,
) -> None:
    """Holdfast pins down what an interruption did to a cluster with a self-managed Karpenter, and why."""


def _explain(message: str) -> None:
    error_console().print(plain(message))


def main() -> None:
    """Runs the command line of this process and ends it."""
    app()
