"""The three layers under every function: packages, Holdfast itself, and the configuration."""

from aws_cdk import aws_lambda
from constructs import Construct

from holdfast.runtime.config import HoldfastConfig
from stacks import bundling
from stacks.config import to_resolved_json


class PythonLayers(Construct):
    """Layers for the functions of one stack.

    Each stack makes its own. A layer of another stack would come by a CloudFormation export, which changes with the
    layer's content, and CloudFormation refuses to change an export that is in use.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: HoldfastConfig) -> None:
        """The dependencies are built for the configured architecture; the other two fit any."""
        super().__init__(scope, construct_id)
        self.architecture = bundling.lambda_architecture(config.architecture)
        self.layers: list[aws_lambda.ILayerVersion] = [
            self._layer(
                "Dependencies",
                bundling.dependencies_layer_code(config.architecture),
                "third-party packages, precompiled",
            ),
            self._layer("Holdfast", bundling.holdfast_layer_code(), "the holdfast package, precompiled"),
            self._layer(
                "Configuration", bundling.config_layer_code(to_resolved_json(config)), "the resolved configuration"
            ),
        ]

    def _layer(self, construct_id: str, code: aws_lambda.Code, what: str) -> aws_lambda.LayerVersion:
        return aws_lambda.LayerVersion(
            self,
            construct_id,
            code=code,
            description=f"Holdfast: {what}",
            compatible_runtimes=[aws_lambda.Runtime.PYTHON_3_13],
            compatible_architectures=[self.architecture],
        )
