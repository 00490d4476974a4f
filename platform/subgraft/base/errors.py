"""Exceptions and exit codes: user errors, operational errors, and termination by SIGTERM."""

from __future__ import annotations

from subgraft.base.redaction import redact


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
    """A wrong argument of a function of `subgraft`, whose name is `where`; commands have options of the same names."""

    def as_option(self) -> UserError:
        """The same error, naming the command's option."""
        return UserError(self.what, where=f"--{self.where.replace('_', '-')}", hint=self.hint)


class OperationalError(SubgraftError):
    """A failure of the disk, the network or a process: exit code 1; running the same command again resumes."""

    exit_code = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, sent by `timeout`, a scheduler or `ray job stop`: an interrupt with the exit code of that signal."""

    exit_code = 143
