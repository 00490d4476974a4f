"""The README names every file, its commands exist, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from subgraft.cli import parser

PAGES = ("README.md", "docs/cluster.md", "docs/design.md", "docs/extending.md", "docs/results.md")
NAMED_FOLDERS = ("platform/", "jobs/", "benchmarks/", "studies/", "configs/", "docs/", "k8s/", "slurm/")


def _blocks(page: Path, language: str) -> Iterator[str]:
    """The fenced blocks of a page in a language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    yield from re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _tree(repository: Path) -> list[str]:
    """Every file of the README's tree, as a path; folders end in a slash."""
    (block,) = _blocks(repository / "README.md", "text")
    named: list[str] = []
    above: list[str] = []
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        named.append("".join([*above[:depth], name]))
        above[depth:] = [name]
    return named


def _tracked(repository: Path) -> list[str]:
    command = ["git", "-C", str(repository), "ls-files"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs a git checkout, to know which files belong to the project")
    return [path for path in done.stdout.splitlines() if (repository / path).exists()]


def _must_be_named(path: str) -> bool:
    if path.endswith(("/__init__.py", ".png")):
        return False
    return path.startswith(NAMED_FOLDERS) or ("/" not in path and not path.startswith("."))


def test_the_tree_names_every_file(repository: Path) -> None:
    missing = {path for path in _tracked(repository) if _must_be_named(path)} - set(_tree(repository))
    assert not missing


def test_the_tree_names_every_file_once(repository: Path) -> None:
    named = _tree(repository)
    assert [name for name in named if named.count(name) > 1] == []


def test_the_tree_names_no_file_that_is_not_there(repository: Path) -> None:
    gone = {name for name in _tree(repository) if not (repository / name).exists()}
    assert not gone


def test_every_line_of_the_tree_says_something(repository: Path) -> None:
    (block,) = _blocks(repository / "README.md", "text")
    bare = [line for line in block.splitlines() if len(line.split()) < 2 and not line.rstrip().endswith("/")]
    assert not bare


def _commands(page: Path) -> list[str]:
    lines = (line for block in _blocks(page, "sh") for line in block.splitlines())
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize(("page", "fewest"), [("README.md", 10), ("docs/cluster.md", 1)])
def test_every_subgraft_command_shown_is_understood(repository: Path, page: str, fewest: int) -> None:
    shown = [line for line in _commands(repository / page) if line.startswith("subgraft ")]
    assert len(shown) >= fewest
    for line in shown:
        parser().parse_args(shlex.split(line)[1:])  # an unknown command or option exits


@pytest.mark.parametrize("page", ["README.md", "docs/cluster.md"])
def test_every_job_shown_is_there_and_understood(repository: Path, page: str) -> None:
    jobs = [shlex.split(line) for line in _commands(repository / page) if line.startswith("ray job submit ")]
    assert jobs
    for sending, (python, path, *arguments) in ((job[: job.index("--")], job[job.index("--") + 1 :]) for job in jobs):
        assert (repository / sending[sending.index("--runtime-env") + 1]).is_file()
        assert python == "python" and (repository / path).is_file()
        parser().parse([Path(path).stem, *arguments])
        assert len((repository / path).read_text(encoding="utf-8").splitlines()) <= 30


def test_every_make_target_of_the_readme_exists(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    targets = [line.split()[1] for line in _commands(repository / "README.md") if line.startswith("make ")]
    assert targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(repository: Path, page: str) -> None:
    text = (repository / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)", text)
    local = [link for link in links if "://" not in link]
    missing = [link for link in local if not ((repository / page).parent / link).exists()]
    assert not missing
