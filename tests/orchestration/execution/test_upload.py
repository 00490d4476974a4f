"""What a job would send is what Ray would pack, and its description is read with care."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.orchestration.execution.upload import pack_working_directory, require_small


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a package, built files, and files that git ignores."""
    for name in ("platform/code.py", "tests/test_code.py", ".git/config", "kept/made.bin", "run.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("/kept/\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _described(here: Path, text: str) -> Path:
    (here / "env.yaml").write_text(text)
    return here / "env.yaml"


def test_what_is_excluded_or_ignored_is_not_sent(here: Path) -> None:
    upload = pack_working_directory(_described(here, "working_dir: .\nexcludes: [/tests/]\n"))
    assert upload.files == 4  # .gitignore, env.yaml, platform/code.py, run.py
    assert {name for name, _ in upload.largest} <= {".gitignore", "env.yaml", "platform/code.py", "run.py"}
    require_small(upload, here / "env.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("excludes: [/tests/]\n", "names no working_dir"),
        ("- working_dir\n", "names no working_dir"),
        ("working_dir: elsewhere\n", "working_dir elsewhere: no such folder"),
        ("working_dir: [\n", "not YAML"),
    ],
)
def test_a_description_without_a_folder_is_refused(here: Path, text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        pack_working_directory(_described(here, text))


def test_an_absent_description_is_refused(here: Path) -> None:
    with pytest.raises(UserError, match="no such runtime environment file"):
        pack_working_directory(here / "absent.yaml")


def test_the_repository_sends_its_package_and_little_else(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    upload = pack_working_directory(repository / "runtime_env.yaml")
    sources = [path for path in (repository / "platform").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(sources) <= upload.files <= len(sources) + 70
    assert upload.bytes < 5_000_000
