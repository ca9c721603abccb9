"""Which IAM actions an adapter's method calls, declared on the method itself.

The stacks build the functions' policies from these declarations, and a test compares them with the calls that the
methods really make, so that neither can drift. Nothing here imports an AWS library.
"""

from __future__ import annotations

from collections.abc import Callable

_ATTRIBUTE = "__iam_actions__"


def calls[F: Callable[..., object]](*actions: str) -> Callable[[F], F]:
    """Declares the IAM actions that calling the decorated method may need, such as `dynamodb:PutItem`."""

    def declare(method: F) -> F:
        setattr(method, _ATTRIBUTE, frozenset(actions))
        return method

    return declare


def actions_of(adapter: type, *methods: str) -> frozenset[str]:
    """The IAM actions of the named methods of an adapter class; of all that declare some when none is named.

    Raises:
        LookupError: the class has no such method, or it declares nothing.
    """
    declared = declarations(adapter)
    unknown = [name for name in methods if name not in declared]
    if unknown:
        raise LookupError(f"{adapter.__name__} declares no IAM actions for: {', '.join(unknown)}")
    return frozenset().union(*(declared[name] for name in methods or declared))


def declarations(adapter: type) -> dict[str, frozenset[str]]:
    """Every method of the class that declares IAM actions, with them."""
    found = {name: getattr(getattr(adapter, name), _ATTRIBUTE, None) for name in dir(adapter)}
    return {name: actions for name, actions in found.items() if actions is not None}
