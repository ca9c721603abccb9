"""A real cluster on this machine: etcd, the Kubernetes control plane, kwok's nodes and Karpenter's own AWS provider."""
