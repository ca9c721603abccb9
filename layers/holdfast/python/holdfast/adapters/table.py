"""The schema of the ledger's table: one table, two indexes. The state stack builds it from these names.

| row | pk | sk |
|---|---|---|
| fact | `I#<account>#<region>#<instance>` | `F#<event time>#<kind>#<event id>` |
| observation | same | `O#<time of the look>#<hash>` |
| judged case | same | `C#<cycle>` |
| watch | same | `W` |
| rejection | `P#<day>#<shard>` | `<SHA-256 of the body>` |
| alert to tell | `X#<destination>` | `<alert id>` |
| lease of a destination | `L#<destination>` | `LEASE` |
| what Holdfast remembers of itself | `S#<account>#<region>` | `canary`, `drift`, `lag`, `mode` |

Facts about a capacity reservation, a FIS experiment or a canary have `R#`, `D#` or `K#` in place of `I#`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

PARTITION_KEY: Final = "pk"
SORT_KEY: Final = "sk"
TTL_ATTRIBUTE: Final = "expires_at"
"""Epoch seconds. DynamoDB removes the row within days of it; nothing is timed by it."""

SHARDS: Final = 10
"""One partition takes 1,000 writes a second; a mass interruption is spread over ten."""

_PLAIN_PART = 200
_LONGEST_KEY = 1000  # DynamoDB allows 1,024 bytes in a sort key


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index; `projection` lists the attributes besides the keys, None means all. All keys are text."""

    name: str
    partition_key: str
    sort_key: str
    projection: tuple[str, ...] | None


BY_CLUSTER: Final = Index("by_cluster", "gsi1pk", "gsi1sk", None)
"""Judged cases: `<cluster or ->#<month>#<shard>` and their time. A day would make no partition colder: all writes are of today."""

OPEN: Final = Index("open", "gsi2pk", "gsi2sk", ("account", "region", "instance_id", "cluster"))
"""What waits: watches under `OPEN#<shard>` by due time, alerts under `OPEN#alerts#<destination>` by since when
they may be told. Sparse."""

INDEXES: Final = (BY_CLUSTER, OPEN)


def subject_key(account: str, region: str, subject: str, *, letter: Literal["I", "R", "D", "K"] = "I") -> str:
    """The partition of all that is known of an instance (`I`), capacity reservation (`R`), experiment (`D`) or canary."""
    return f"{letter}#{_part(account)}#{_part(region)}#{_part(subject)}"


def fact_key(at: datetime, kind: str, event_id: str) -> str:
    """The sort key of a fact: the same event gives the same key however often it is delivered."""
    return f"F#{exact_time(at)}#{kind}#{_part(event_id)}"


def observation_key(at: datetime, document: str) -> str:
    """The sort key of a look; two different looks at the same moment have two keys."""
    return f"O#{exact_time(at)}#{hashlib.sha256(document.encode()).hexdigest()[:8]}"


def case_key(cycle: str) -> str:
    """The sort key of a judged case."""
    return f"C#{_part(cycle)}"


WATCH: Final = "W"
LEASE: Final = "LEASE"


def rejection_keys(day: datetime) -> tuple[str, ...]:
    """The partitions that hold the rejections of a day."""
    return tuple(f"P#{_day(day)}#{shard}" for shard in range(SHARDS))


def rejection_key(day: datetime, digest: str) -> str:
    """The partition of one rejection."""
    return f"P#{_day(day)}#{shard_of(digest)}"


def cluster_month_keys(cluster: str | None, month: datetime) -> tuple[str, ...]:
    """The partitions of `BY_CLUSTER` that hold a cluster's cases of a month (UTC); None are those of no known cluster."""
    return tuple(f"{_cluster(cluster)}#{_month(month)}#{shard}" for shard in range(SHARDS))


def cluster_month_key(cluster: str | None, moment: datetime, subject: str) -> str:
    """The partition of `BY_CLUSTER` for one case."""
    return f"{_cluster(cluster)}#{_month(moment)}#{shard_of(subject)}"


def open_watch_keys() -> tuple[str, ...]:
    """The partitions of `OPEN` that hold the watches."""
    return tuple(f"OPEN#{shard}" for shard in range(SHARDS))


def open_watch_key(subject: str) -> str:
    """The partition of `OPEN` for one watch."""
    return f"OPEN#{shard_of(subject)}"


def outbox_key(destination: str) -> str:
    """The partition of the alerts of a destination."""
    return f"X#{_part(destination)}"


def open_alerts_key(destination: str) -> str:
    """The partition of `OPEN` that holds a destination's alerts not told yet."""
    return f"OPEN#alerts#{_part(destination)}"


def alert_key(alert_id: str) -> str:
    """The sort key of an alert: its id, or a hash of one that is too long for a key."""
    return alert_id if len(alert_id.encode()) <= _LONGEST_KEY else _hash(alert_id)


def lease_key(destination: str) -> str:
    """The partition of a destination's lease."""
    return f"L#{_part(destination)}"


def state_key(account: str, region: str) -> str:
    """The partition of what Holdfast remembers of itself."""
    return f"S#{_part(account)}#{_part(region)}"


def shard_of(text: str) -> int:
    """Which of the ten shards a text belongs to; the same everywhere and always."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % SHARDS


def exact_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds: it sorts as text, and reading it back loses nothing."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _part(text: str) -> str:
    # Ids come from event bodies, which anybody may write: one that is long or holds the separator is hashed.
    if "#" in text or len(text.encode()) > _PLAIN_PART:
        return _hash(text)
    return text


def _cluster(name: str | None) -> str:
    return "-" if name is None else _part(name)


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def _month(moment: datetime) -> str:
    return _day(moment).rpartition("-")[0]


def _hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
