"""The exceptions that Holdfast's own code raises and catches. Adapters translate every vendor error into one of these."""

from __future__ import annotations


class HoldfastError(Exception):
    """Base of all errors with a message meant for a person: it names the object and the way out."""


class SettingsError(HoldfastError):
    """The environment or the configuration file of a function is wrong; lists every problem at once."""


class InvalidDocument(HoldfastError):
    """A stored row, an observation file or another document of ours does not have the shape it should."""


class Unavailable(HoldfastError):
    """A service did not answer, throttled, or failed: the same call may work later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Keeps `retry_after`, the seconds the service asked us to wait, or None when it did not say."""
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(Unavailable):
    """The service asked us to slow down."""


class Denied(HoldfastError):
    """The service answered and refused: a permission is missing. The message names which."""


class NotFound(HoldfastError):
    """The service answered: there is no such object."""


class Conflict(HoldfastError):
    """Somebody else changed the row since it was read: read again and decide again."""
