"""The pages are current: commands exist, links lead somewhere, and what follows from the code does."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest
from pydantic import BaseModel

import reference
from subgraft.config.experiment import Experiment
from subgraft.config.settings_base import groups_in
from subgraft.interfaces.cli import parser

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *sorted(
        str(path.relative_to(ROOT))
        for folder in ("docs", "platform/subgraft")
        for path in ROOT.glob(f"{folder}/**/*.md")
    ),
)


def _blocks(page: Path, language: str) -> Iterator[str]:
    """The fenced blocks of a page in a language."""
    pattern = rf"^```{language}\n(.*?)^```$"
    yield from re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _tracked(repository: Path) -> list[str]:
    command = ["git", "-C", str(repository), "ls-files"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs a git checkout, to know which files belong to the project")
    return [path for path in done.stdout.splitlines() if (repository / path).exists()]


@pytest.mark.parametrize("page", ["settings.md", "commands.md"])
def test_pages_that_follow_from_the_code_are_current(repository: Path, page: str) -> None:
    _tracked(repository)  # skips outside a checkout
    current = (repository / "docs" / page).read_text(encoding="utf-8")
    assert reference.PAGES[page]() == current, "run .venv/bin/python docs/reference.py"


def test_every_setting_is_explained(repository: Path) -> None:
    """A setting's meaning is in the docstring of its group."""
    page = (repository / "docs" / "settings.md").read_text(encoding="utf-8")
    assert re.findall(r"^- (`\w+`) \(.*\): *$", page, flags=re.MULTILINE) == []


def test_a_setting_that_is_a_group_leads_to_its_section(repository: Path) -> None:
    page = (repository / "docs" / "settings.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#(.*?)\)", page)
    assert links and not set(links) - anchors


@pytest.mark.parametrize("kind", ["marian", "causal"])
def test_settings_of_a_base_class_are_explained_once(kind: str) -> None:
    """In a section that those of the groups lead to."""
    page = reference.settings()
    name, meaning = {"marian": ("ffn_dim", "feed-forward"), "causal": ("weight", "in proportion")}[kind]
    (line,) = (line for line in page.splitlines() if line.startswith(f"- `{name}` ("))
    assert meaning in line
    section = page.split(f"({kind})\n")[1].split("\n## ")[0]
    assert re.search(r"^Those of \[.*\]\(#.*\), and:$", section, flags=re.MULTILINE)


def test_a_type_says_its_bounds_and_kinds() -> None:
    """From the settings' own constraints: of a number, of a list, of a member of a union."""
    page = reference.settings()
    assert "- `patience` (integer ≥ 1, optional): " in page
    assert "- `label_smoothing` (number 0 to 1, default `0.1`): " in page
    assert "- `clip_norm` (number > 0 or null, default `1.0`): " in page
    assert "- `seeds` (list of integer ≥ 0, at least one and at most 1,000, default `[1]`): " in page
    assert re.search(r"^- `model` \(.*\[`llama`\]\(#model-llama\)", page, flags=re.MULTILINE)


def test_the_readme_is_short(repository: Path) -> None:
    assert len((repository / "README.md").read_text(encoding="utf-8")) <= 8_000


def _commands(page: Path) -> list[str]:
    lines = (line for block in _blocks(page, "sh") for line in block.splitlines())
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize(
    ("page", "fewest"), [("README.md", 10), ("docs/guide.md", 10), ("docs/guide-models.md", 10), ("docs/cluster.md", 1)]
)
def test_every_subgraft_command_shown_is_understood(repository: Path, page: str, fewest: int) -> None:
    shown = [line for line in _commands(repository / page) if line.startswith("subgraft ")]
    assert len(shown) >= fewest
    for line in shown:
        parser().parse_args(shlex.split(line)[1:])  # an unknown command or option exits


@pytest.mark.parametrize("page", ["README.md", "docs/guide-large.md", "docs/cluster.md"])
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


def _quoted(text: str) -> list[str]:
    """What stands in backticks outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_every_python_file_that_a_page_names_exists(repository: Path, page: str) -> None:
    """By its whole path or the end of one; `*` stands for any name. A file that the page has in full is to be added."""
    text = (repository / page).read_text(encoding="utf-8")
    to_add = set(re.findall(r"`([^`\n]+\.py)`:\n\n```python\n", text))
    named = {word for word in _quoted(text) if re.fullmatch(r"[\w./*-]+\.py", word)} - to_add
    files = [PurePath("/", path) for path in _tracked(repository)]
    assert {path for path in named if not any(file.match(path) for file in files)} == set()


def _names_a_setting(key: str) -> bool:
    """Whether a dotted path leads to a setting; names of corpora and places in lists may be anything."""
    groups: list[type[BaseModel]] = [Experiment]
    for part in key.split("."):
        fields = [group.model_fields[part] for group in groups if part in group.model_fields]
        if not fields:
            return False
        groups = [model for field in fields for model in groups_in(field.annotation)]
    return True


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_every_setting_that_a_page_names_exists(repository: Path, page: str) -> None:
    """Dotted paths that begin with a group of the configuration, with a value or without."""
    quoted = _quoted((repository / page).read_text(encoding="utf-8"))
    paths = [result[1] for word in quoted if (result := re.match(r"([a-z_]+(?:\.[a-z_]+)+)(?=$|[:=\s])", word))]
    keys = {
        path for path in paths if path.split(".")[0] in Experiment.model_fields and not path.endswith((".py", ".yaml"))
    }
    assert {key for key in keys if not _names_a_setting(key)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(repository: Path, page: str) -> None:
    text = (repository / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)", text)
    local = [link for link in links if "://" not in link]
    missing = [link for link in local if not ((repository / page).parent / link).exists()]
    assert not missing
