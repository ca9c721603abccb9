"""What goes wrong in the sandbox, in words for the person at the terminal."""


class SandboxError(Exception):
    """The sandbox could not do what was asked; the message names the object and the way out."""
