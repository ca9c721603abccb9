"""`holdfast render`: files for Kubernetes that belong to the configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.render.rbac import aws_auth_rows, render_rbac
from holdfast.runtime.config import AuthenticationMode, HoldfastConfig
from holdfast_cli.config import DEFAULT_FILE
from holdfast_cli.errors import Mistake
from stacks.config import load

app = typer.Typer(no_args_is_help=True, help="Files for Kubernetes that belong to the configuration.")


@app.callback()
def render() -> None:
    """Files for Kubernetes that belong to the configuration. They are printed; nothing is applied."""


@app.command()
def rbac(
    *,
    config: Annotated[
        Path | None, typer.Option(help="The configuration; without it holdfast.yaml, if there is one.")
    ] = None,
    role_arn: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARN",
            help="A role of Holdfast's judge, for the rows of aws-auth. The control plane stack's outputs name them.",
        ),
    ] = None,
) -> None:
    """Prints the ClusterRole and the ClusterRoleBinding that let Holdfast's functions read a cluster.

    They are the same for every cluster. Where the authentication mode is CONFIG_MAP, EKS knows no access entries: with
    --role-arn the rows for the ConfigMap aws-auth are printed too, as comments.

    For example:

        holdfast render rbac | kubectl apply -f -

        holdfast render rbac --role-arn arn:aws:iam::111122223333:role/holdfast-judge
    """
    loaded = _configuration(config)
    sys.stdout.write(render_rbac())
    by_config_map = [
        cluster.name
        for cluster in (loaded.clusters if loaded is not None else ())
        if cluster.authentication_mode is AuthenticationMode.CONFIG_MAP
    ]
    if role_arn:
        _check_arns(role_arn)
        sys.stdout.write(_comment("Rows for mapRoles in the ConfigMap kube-system/aws-auth (mode CONFIG_MAP):"))
        sys.stdout.write(_comment(aws_auth_rows(role_arn)))
    elif by_config_map:
        names = ", ".join(by_config_map)
        sys.stdout.write(
            _comment(
                f"Authentication mode CONFIG_MAP: {names}. These clusters need rows in the ConfigMap aws-auth as well:\n"
                "run this again with --role-arn for each judge role that the control plane stack's outputs name."
            )
        )


def _configuration(path: Path | None) -> HoldfastConfig | None:
    if path is None and not DEFAULT_FILE.exists():
        return None
    return load(path or DEFAULT_FILE)


def _check_arns(arns: list[str]) -> None:
    wrong = [arn for arn in arns if not (arn.startswith("arn:") and ":role/" in arn)]
    if wrong:
        raise Mistake(f"--role-arn {wrong[0]}: must be a role's ARN, as in arn:aws:iam::111122223333:role/NAME.")


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())
