"""Passwords and tokens on disk: nobody else can read them, or they are refused with the command that mends it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.base.security.private_files import password_in, ray_token, secret_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_before_ray_would_make_it(home: Path) -> None:
    created = ray_token()
    token = home / ".ray" / "auth_token"
    assert created == token.read_text() and (mode(token.parent), mode(token)) == (0o700, 0o600)
    made = token.read_text()
    assert len(made) == 64
    ray_token()
    assert token.read_text() == made, "it stays what it was"


@pytest.mark.parametrize(
    ("folder", "file"), [(0o700, 0o644), (0o755, 0o644), (0o755, 0o600), (0o777, 0o600), (0o755, None)]
)
def test_an_open_one_is_refused_and_the_command_mends_it(home: Path, folder: int, file: int | None) -> None:
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    if file is not None:
        token.write_text("known to others")
        token.chmod(file)
    token.parent.chmod(folder)
    with pytest.raises(UserError, match="open to others") as refused:
        ray_token()
    subprocess.run(refused.value.hint.split("`")[1], shell=True, check=True)
    ray_token()
    assert (mode(token.parent), mode(token)) == (0o700, 0o600)
    readable_before = file is not None and (file & 0o077 or folder & 0o022)
    assert (token.read_text() == "known to others") == (file is not None and not readable_before)


def test_a_file_that_is_named_is_held_to_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "token"))
    ray_token()
    assert mode(home / "token") == 0o600 and not (home / ".ray").exists()
    (home / "token").chmod(0o640)
    with pytest.raises(UserError, match="open to others"):
        ray_token()


def test_a_token_in_the_environment_needs_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    ray_token()
    assert not (home / ".ray").exists()


def test_the_password_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "password"
    before = os.umask(0)
    try:
        password = password_in(file)
    finally:
        os.umask(before)
    assert len(password) >= 32 and mode(file) == 0o600
    assert password_in(file) == password and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("permissions", "content", "complaint"),
    [
        (0o644, "known", r"not yours alone.*\n.*Remove it"),
        (0o640, "known", "not yours alone"),
        (0o602, "known", "not yours alone"),
        (0o600, "", "is empty"),
    ],
)
def test_an_open_or_empty_password_is_refused(tmp_path: Path, permissions: int, content: str, complaint: str) -> None:
    file = tmp_path / "password"
    file.write_text(content)
    file.chmod(permissions)
    with pytest.raises(UserError, match=complaint):
        password_in(file)


def test_a_token_lasts_as_long_as_its_server_and_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    before = os.umask(0)
    try:
        with secret_file(file, "a token"):
            assert mode(file) == 0o600 and file.read_text() == "a token\n"
            with pytest.raises(UserError, match="exists already"), secret_file(file, "another"):
                pass
            assert file.read_text() == "a token\n"
    finally:
        os.umask(before)
    assert not file.exists()
