"""The programs a real cluster is made of: where each comes from, at which version, and how it is built.

Each folder of tests/cluster is a Go module of its own, since Karpenter and the API server need different versions of the same
libraries. It holds no code: `go.mod` names the program as a tool, `go.sum` pins every module it is built from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).parents[4] / "tests" / "cluster"


@dataclass(frozen=True, slots=True)
class Substitution:
    """A change to one file of an upstream module before it is built. `old` has to be there exactly `times` times."""

    file: str
    old: str
    new: str
    why: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Program:
    """One binary. `module` is the Go module whose version is the program's; `variables` are set by the linker.

    `folders` of the module's source are kept beside the binary.
    """

    name: str
    folder: str
    module: str
    package: str
    variables: tuple[str, ...] = ()
    substitutions: tuple[Substitution, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version of the program's module, as go.mod requires it."""
        found = re.search(rf"^(?:require )?\s*{re.escape(self.module)} (v\S+)", self.go_mod, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.folder}/go.mod requires no {self.module}")
        return found[1]

    @property
    def go_mod(self) -> str:
        """The text of the module file."""
        return (MODULES / self.folder / "go.mod").read_text()

    @property
    def go_sum(self) -> str:
        """The text with the module's pinned hashes."""
        return (MODULES / self.folder / "go.sum").read_text()

    @property
    def linked(self) -> tuple[str, ...]:
        """The linker's settings of variables, with the version filled in."""
        return tuple(text.format(version=self.version, bare=self.version.removeprefix("v")) for text in self.variables)


_KUBERNETES: Final = "k8s.io/kubernetes"
_KUBERNETES_VERSION: Final = (
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor=1",
    "k8s.io/component-base/version.gitMinor=36",
    "k8s.io/component-base/version.gitTreeState=clean",
    "k8s.io/component-base/version.gitCommit=0000000",
)

RECLAIMED: Final = "sandbox.holdfast.dev/reclaimed"
"""The annotation on a Node that makes the program forget its instance, as when EC2 takes it."""

_LIKE_EC2: Final = (
    Substitution(
        "kwok/ec2/ec2.go",
        'InstanceId: lo.ToPtr(fmt.Sprintf("i-%s", randomdata.Alphanumeric(17)))',
        'InstanceId: lo.ToPtr(fmt.Sprintf("i-%016x%x", rand.Uint64(), rand.Intn(16)))',
        "EC2's instance ids have 17 hexadecimal digits",
    ),
    Substitution(
        "kwok/ec2/ec2.go",
        'ProviderID: fmt.Sprintf("kwok-aws:///%s/%s"',
        'ProviderID: fmt.Sprintf("aws:///%s/%s"',
        "the provider id of a real node begins with aws:///",
    ),
    Substitution(
        "kwok/cloudprovider/cloudprovider.go",
        '"aws", "kwok-aws", 1)',
        '"aws", "aws", 1)',
        "and so does that of its NodeClaim",
        times=3,
    ),
    Substitution(
        "kwok/ec2/ec2.go",
        "c.clock.After(30 * time.Second)",
        "c.clock.After(2 * time.Second)",
        "a node that appears sooner makes tests faster and changes no decision",
    ),
    Substitution(
        "kwok/ec2/ec2.go",
        "if _, ok := c.instances.Load(id); !ok && node.DeletionTimestamp.IsZero() {",
        f"""if _, reclaimed := node.Annotations["{RECLAIMED}"]; reclaimed {{
				c.instances.Delete(id)
			}}
			if _, ok := c.instances.Load(id); !ok && node.DeletionTimestamp.IsZero() {{""",
        "somebody has to be able to play EC2 that takes a Spot instance",
    ),
    Substitution(
        "kwok/ec2/ec2.go",
        "case <-time.After(time.Second * 5):",
        "case <-time.After(time.Second):",
        "and to take it on time: here the program looks whether the instances of its nodes are still there",
    ),
)

PROGRAMS: Final = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "apiserver", _KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_VERSION)
        for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    ),
    Program(
        "kwok",
        "kwok",
        "sigs.k8s.io/kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        ("sigs.k8s.io/kwok/pkg/consts.Version={version}",),
    ),
    Program(
        "karpenter",
        "karpenter",
        "github.com/aws/karpenter-provider-aws",
        "github.com/aws/karpenter-provider-aws/kwok",
        ("sigs.k8s.io/karpenter/pkg/operator.Version={bare}",),
        _LIKE_EC2,
        folders=("pkg/apis/crds", "charts"),
    ),
    Program(
        "helm",
        "helm",
        "helm.sh/helm/v4",
        "helm.sh/helm/v4/cmd/helm",
        ("helm.sh/helm/v4/internal/version.version={version}",),
    ),
)
