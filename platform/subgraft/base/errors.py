"""Exceptions and exit codes: user errors, operational errors, termination by SIGTERM; and the warning of a loss."""

from __future__ import annotations

import re
from collections.abc import Container

from subgraft.base.security.redaction import redact


class SubgraftError(Exception):
    """An error that is shown to the user as one message, with secrets redacted.

    Attributes:
        what: the problem.
        where: the file and line, the setting or the option.
        hint: how to fix it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = redact(what), redact(where), redact(hint)
        super().__init__(self.what, self.where, self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by the default pickling, and errors travel between Ray processes.
        return (_rebuild, (type(self), self.what, self.where, self.hint))

    def __str__(self) -> str:
        located = f"{self.where}: {self.what}" if self.where else self.what
        return f"{located}\n  {self.hint}" if self.hint else located


def _rebuild(kind: type[SubgraftError], what: str, where: str, hint: str) -> SubgraftError:
    return kind(what, where=where, hint=hint)


class UserError(SubgraftError):
    """A request that cannot be carried out: exit code 2, and no partial output."""

    exit_code = 2


class ArgumentError(UserError):
    """A wrong argument of a function of `subgraft`, whose name is `where`; commands have options of the same names.

    The message names further arguments in backticks, as in `languages`.
    """

    def as_options(self, names: Container[str]) -> UserError:
        """The same error, naming options in place of those arguments that a command has."""

        def option(name: str) -> str | None:
            # An option that is repeated has the name of one of them.
            known = next((known for known in (name, name.removesuffix("s")) if known in names), None)
            return known and f"--{known.replace('_', '-')}"

        what, hint = (
            re.sub(r"`([a-z_]+)`", lambda match: option(match[1]) or match[0], text) for text in (self.what, self.hint)
        )
        return UserError(what, where=option(self.where) or self.where, hint=hint)


class LossWarning(UserWarning):
    """A function of `subgraft` has lost something that the user may want to know; commands print it."""


class OperationalError(SubgraftError):
    """A failure of the disk, the network or a process: exit code 1; running the same command again resumes."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, sent by `timeout`, a scheduler or `ray job stop`: an interrupt with the exit code of that signal."""

    exit_code = 143
