"""How a command ends badly: the user's mistake, the world's failure, or the wish of whoever sends SIGTERM."""

from __future__ import annotations

from subgraft.base.redaction import redacted


class SubgraftError(Exception):
    """An error that the user sees as one message, without secrets: where, what, and how to mend it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = redacted(what), redacted(where), redacted(hint)
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
    """Something the user asked for cannot be done as asked: exit code 2, nothing half-written."""

    exit_code = 2


class ArgumentError(UserError):
    """A wrong argument of a function of `subgraft`, whose name is `where`; commands have options of the same names."""

    def as_option(self) -> UserError:
        """The same in a command's words."""
        return UserError(self.what, where=f"--{self.where.replace('_', '-')}", hint=self.hint)


class OperationalError(SubgraftError):
    """Something outside failed (disk, network, process): exit code 1, and the same command carries on."""

    exit_code = 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, as from `timeout`, a scheduler or `ray job stop`: an interrupt with the exit code of that signal."""

    exit_code = 143
