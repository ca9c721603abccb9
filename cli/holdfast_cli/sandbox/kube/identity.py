"""Who calls the API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """What an authenticator knows about the bearer of a token."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


type Authenticator = Callable[[str], UserInfo | None]
"""A bearer token to its user; None refuses the token."""

ANONYMOUS = UserInfo("system:anonymous", (UNAUTHENTICATED,))
