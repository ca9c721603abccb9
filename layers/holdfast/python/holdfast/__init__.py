"""Holdfast: a control plane beside self-managed Karpenter on EKS."""

__version__ = "0.1.0"
"""The version in pyproject.toml (a test compares them); the layer carries no package metadata to read it from."""
