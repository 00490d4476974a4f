"""Passwords and tokens on disk, which only this user can read; a file that is open to others is refused."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from subgraft.base.errors import UserError

OTHERS, WRITABLE = 0o077, 0o022  # permissions


def make_private(file: Path, text: str) -> None:
    """Create a file that only this user can read, atomically; an existing file is not replaced."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with suppress(FileExistsError):
        temporary.unlink(missing_ok=True)
        temporary.touch(0o600, exist_ok=False)
        try:
            temporary.write_text(text, encoding="ascii")
            file.hardlink_to(temporary)
        finally:
            temporary.unlink()


@contextmanager
def secret_file(path: Path, token: str) -> Iterator[None]:
    """A private file, removed when the token expires. Raises UserError if it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UserError("exists already", where=str(path), hint="Give another --token-file.") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def password_in(file: Path) -> str:
    """The password in a file, which is created if absent. Raises UserError if others could read it."""
    if not file.exists():
        make_private(file, f"{secrets.token_urlsafe(24)}\n")
    with file.open(encoding="ascii") as opened:
        state = os.fstat(opened.fileno())
        password = opened.read().strip()
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077 or not password:
        problem = "is not yours alone to read" if password else "is empty"
        raise UserError(problem, where=str(file), hint="Remove it: a new password is made then.")
    return password


def ray_token() -> str:
    """The token of Ray's dashboard, created if absent. RAY_AUTH_TOKEN, where set, takes precedence over the file.

    Its holder can run commands as this user, and Ray would write it readable by everybody. Raises UserError, with the
    command that fixes it, if others can read or replace the file.
    """
    if token_set := os.environ.get("RAY_AUTH_TOKEN"):
        return token_set
    path = os.environ.get("RAY_AUTH_TOKEN_PATH")
    token = Path(path) if path else Path.home() / ".ray" / "auth_token"
    if not path:
        token.parent.mkdir(mode=0o700, exist_ok=True)
        _require_private(token.parent, token)
    if not token.exists():
        make_private(token, secrets.token_hex(32))
    _require_private(token, token)
    return token.read_text(encoding="utf-8").strip()


def _require_private(path: Path, token: Path) -> None:
    status = path.stat()
    if status.st_uid == os.getuid() and not status.st_mode & OTHERS:
        return
    commands, reason = [f"chmod 700 {path}"] if path != token else [], ""
    if token.exists() and (token.stat().st_mode & OTHERS or path.stat().st_mode & WRITABLE):
        commands, reason = [*commands, f"rm {token}"], ": others may know this token, and a new one is created"
    raise UserError(
        f"the token of Ray's dashboard is open to others (mode {status.st_mode & 0o777:04o})",
        where=str(path),
        hint=f"`{' && '.join(commands)}`, and run again{reason}",
    )
