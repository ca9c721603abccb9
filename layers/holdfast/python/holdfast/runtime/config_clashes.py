"""Which names the clusters of a configuration take, and where two take the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from holdfast.runtime import names
from holdfast.runtime.config_cluster import Cluster, ExistingQueue
from holdfast.runtime.config_types import AccountId, ClusterName, Problems, QueueName, Region, Section


class QueueLabel(Section, extra="ignore"):
    """What of a queue says which names it takes."""

    name: QueueName | None = None


class ClusterLabel(Section, extra="ignore"):
    """What of a cluster says which names it takes, so that clashes are found beside other problems."""

    name: ClusterName
    region: Region
    account: AccountId
    queue: QueueLabel | None = None
    existing_queue: ExistingQueue | None = None


def labels(value: object) -> Iterator[tuple[int, ClusterLabel]]:
    """The clusters in `value` that say at least which names they take, with their places in the list."""
    for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
        try:
            yield index, ClusterLabel.model_validate(item)
        except ValidationError:
            continue  # already reported by the list's own validation


@dataclass(frozen=True, slots=True)
class _Claim:
    """A name that a cluster takes in its account and region, and where the configuration says so."""

    kind: str
    name: str
    place: tuple[str | int, ...]
    index: int
    cluster: str
    shareable: bool = False


def _claims(index: int, cluster: Cluster | ClusterLabel, prefix: str) -> Iterator[_Claim]:
    def claim(kind: str, name: str, *place: str, shareable: bool = False) -> _Claim:
        return _Claim(kind, name, (index, *place), index, cluster.name, shareable)

    existing = cluster.existing_queue
    if existing:
        yield claim("queue", existing.name, "existingQueue", "name")
        if existing.dead_letter_queue_name:
            place = ("existingQueue", "deadLetterQueueName")
            yield claim("queue", existing.dead_letter_queue_name, *place, shareable=True)
    else:
        configured = cluster.queue.name if cluster.queue else None
        queue = names.karpenter_queue_name(cluster.name, configured)
        named = ("queue", "name") if configured else ("name",)
        yield claim("queue", queue, *named)
        yield claim("queue", names.dlq_name(queue), *named)
        yield claim("queue", names.target_dlq_name(queue), *named)
        for kind in names.RuleKind:
            yield claim("rule", names.rule_name(prefix, cluster.name, kind), "name")
    yield claim("stack", names.cluster_stack_id(prefix, cluster.account, cluster.region, cluster.name), "name")


def find_clashes(clusters: Mapping[int, Cluster | ClusterLabel], prefix: str, found: Problems) -> None:
    """Adds a problem for each cluster that is there twice or takes a name that another one has."""
    first: dict[tuple[str, str, str], int] = {}
    taken: dict[tuple[str, str, str, str], _Claim] = {}
    for index, cluster in clusters.items():
        where = (cluster.account, cluster.region)
        other = first.setdefault((*where, cluster.name), index)
        if other != index:
            found.add(
                (index, "name"),
                f"is there already, as clusters[{other}] in {cluster.account}, {cluster.region}",
            )
            continue
        for claim in _claims(index, cluster, prefix):
            if claim.kind == "queue" and names.is_own_queue(prefix, claim.name):
                found.add(
                    claim.place, f"must be another queue than {claim.name}, which Holdfast has for its own messages"
                )
                break
            # Names that differ only in case are two to SQS, but one role to IAM and one file in cdk.out.
            holder = taken.setdefault((*where, claim.kind, claim.name.casefold()), claim)
            if holder is not claim and not (holder.shareable and claim.shareable):
                found.add(claim.place, _clash(claim, holder))
                break  # the cluster's other names follow from this one


def _clash(claim: _Claim, holder: _Claim) -> str:
    if claim.index == holder.index:
        return f"must be another queue than the cluster's own, {holder.name}"
    owner = f"clusters[{holder.index}] ({holder.cluster})"
    if claim.name != holder.name:
        return f"makes the {claim.kind} {claim.name}, which differs only in case from {holder.name} of {owner}"
    if claim.kind == "queue":
        return (
            f"must be a queue of its own: {claim.name} is also a queue of {owner}, and what one Karpenter"
            " receives it deletes, so each would lose the other's interruption notices"
        )
    return f"makes the {claim.kind} {claim.name}, which {owner} makes too"
