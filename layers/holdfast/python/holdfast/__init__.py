"""Holdfast: a control plane beside self-managed Karpenter on EKS."""
