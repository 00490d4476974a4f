"""The token of Ray's dashboard: in a file that only this user can read, so that a browser can be given it.

Whoever has it can run commands as this user. Ray would write it readable by everybody.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import make_private

OTHERS, WRITABLE = 0o077, 0o022


def ensure_private_token() -> str:
    """The token, made where there is none; nobody else can read, or replace, the one there is.

    Raises UserError with the command that mends it. RAY_AUTH_TOKEN, where it is set, is Ray's token; then no file is.
    """
    if given := os.environ.get("RAY_AUTH_TOKEN"):
        return given
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    token = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if not named:
        token.parent.mkdir(mode=0o700, exist_ok=True)
        _check(token.parent, token)
    if not token.exists():
        make_private(token, secrets.token_hex(32))
    _check(token, token)
    return token.read_text(encoding="utf-8").strip()


def _check(path: Path, token: Path) -> None:
    about = path.stat()
    if about.st_uid == os.getuid() and not about.st_mode & OTHERS:
        return
    mend, why = [f"chmod 700 {path}"] if path != token else [], ""
    if token.exists() and (token.stat().st_mode & OTHERS or path.stat().st_mode & WRITABLE):
        mend, why = [*mend, f"rm {token}"], ": others may know this one, and a new one is made"
    raise UserError(
        f"the token of Ray's dashboard is open to others (mode {about.st_mode & 0o777:04o})",
        where=str(path),
        hint=f"`{' && '.join(mend)}`, and run again{why}",
    )
