"""How a run of `holdfast` can end, and which error ends it how."""

from __future__ import annotations

from enum import IntEnum

from holdfast.errors import Denied, HoldfastError, NotFound, Unavailable


class ExitCode(IntEnum):
    """The exit codes of every command. A script may rely on them."""

    OK = 0
    NOT_GOOD = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    NOT_FOUND = 5
    DEFECT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What the code says, in one sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "The command did what it was asked.",
    ExitCode.NOT_GOOD: "The command ran, and its answer is not good; the command's help says what that means for it.",
    ExitCode.USAGE: "The command line, a file or the configuration is wrong; the message says how to mend it.",
    ExitCode.UNREACHABLE: "AWS, Kubernetes or the sandbox could not be reached or did not answer. Try again.",
    ExitCode.DENIED: "A permission is missing, or there are no valid credentials; the message names what was refused.",
    ExitCode.NOT_FOUND: "What was asked for is not there.",
    ExitCode.DEFECT: "A defect in Holdfast. Run it again as `holdfast --debug ...` and report what it prints.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C.",
}


class Mistake(HoldfastError):
    """The person asked for something that cannot be done; the message says what to do instead."""


def exit_code(error: HoldfastError) -> ExitCode:
    """The exit code that a run ends with when `error` stopped it."""
    match error:
        case Unavailable():
            return ExitCode.UNREACHABLE
        case Denied():
            return ExitCode.DENIED
        case NotFound():
            return ExitCode.NOT_FOUND
        case _:
            return ExitCode.USAGE
