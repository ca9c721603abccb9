"""The CDK app: `holdfast.yaml`, or the file that the context value `config` names, as CloudFormation templates."""

import sys

from aws_cdk import App

from stacks import assembly
from stacks.bundling import BundlingError
from stacks.config import ConfigError, load
from stacks.constructs.python_function import EnvironmentTooLarge


def synthesize(app: App) -> None:
    """Writes the templates; a mistake in the configuration ends the program with a message, not with a stack trace."""
    try:
        config = load(app.node.try_get_context("config") or "holdfast.yaml")
        assembly.build(app, config)
        app.synth()
    except (ConfigError, BundlingError, EnvironmentTooLarge) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    synthesize(App())
