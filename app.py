"""The CDK app: `holdfast.yaml`, or the file that the context value `config` names, as CloudFormation templates."""

import sys

from aws_cdk import App

from stacks import assembly
from stacks.bundling import BundlingError
from stacks.config import ConfigError, load


def main() -> None:
    """Writes the templates; a mistake in the configuration ends it with a message, not with a stack trace."""
    app = App()
    try:
        config = load(app.node.try_get_context("config") or "holdfast.yaml")
        assembly.build(app, config)
        app.synth()
    except (ConfigError, BundlingError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
