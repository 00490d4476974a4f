"""The commands of README.md and the guide, typed as the pages show them, one after another.

They are typed in a clone (configs/), in which `subgraft example try` was run. Names that a page leaves to its reader
stand for files of the example.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = ("guide", "guide-data", "guide-experiments", "guide-models", "guide-large")
# Pages whose commands are typed one after another.
PAGES = {"README": ("README.md",), "guide": tuple(f"docs/{name}.md" for name in GUIDE)}
# What a reader puts in place of these.
NAMES = {
    "MODEL": "models:/quickstart-en-de@champion",
    "train.fr": "try/contracts.de",
    "test.en": "try/test.en",
    "test.fr": "try/test.de",
    "output.fr": "try/test.de",
    "old.fr": "try/test.de",
    "new.fr": "try/test.en",
    "upstream.en": "try/contracts.en",
    "upstream.fr": "try/contracts.de",
    "text.txt": "try/new.en",
    "texts/laws": "texts/manuals",
    "en-fr": "en-de",
    "--language fr": "--language de",
    "--size 8000": "--size 900",
}
# Commands that are not run, by their first words, and why.
NOT_RUN = {
    "make test": "these tests",
    "make demo": "what it runs is run first",
    "subgraft example try": "is run first",
    ". .venv/bin/activate": "the commands are those of the environment",
    "subgraft run": "hours, or a cluster or GPU; tests/stories has runs of experiments",
    "subgraft search": "hours; tests/stories",
    "ray job submit": "a cluster",
    "subgraft corpora check configs/questions.yaml": "a corpus that SUBGRAFT_DATA names",
    "subgraft fit models/": "the reader's own models; the first fit of each page is run",
    "subgraft predict": "a classifier: `subgraft example`'s page has one, which tests/interfaces trains",
    "subgraft evaluate --model MODEL --labels": "a classifier",
    "subgraft evaluate --model ../classifier": "a classifier and the network",
    "subgraft serve": "until it is stopped; tests/interfaces/serving",
    "curl": "a server",
    "subgraft tracking": "until it is stopped",
    "subgraft compare itdocs": "runs of hours",
    "subgraft report configs/itdocs.yaml": "runs of hours",
    "subgraft judge": "runs of hours",
    "subgraft models show itdocs": "runs of hours",
    "subgraft models promote itdocs": "runs of hours",
    "subgraft models pull models:/itdocs": "runs of hours",
    "subgraft generate --model models:/itdocs": "runs of hours",
    "subgraft assemble": "a BERT",
    "subgraft transfer --model MODEL --vocab DONOR": "a second model",
    "subgraft transfer --model MODEL --vocab vocabulary --method donor": "a second model",
    "pip install": "the network",
    "ollama": "another program",
    "subgraft export MODEL --to gguf": "a language model; tests/modeling/exporting",
    "subgraft convert FILE.gguf": "a language model",
    "subgraft generate --model FILE.gguf": "a language model",
    "subgraft generate --model MODEL --engine llamacpp": "a language model",
    "subgraft push models:/NAME": "a hub",
    "HF_TOKEN": "a hub",
    "subgraft vocab capacity": "texts of many languages; tests/contrib/allocation",
    "subgraft vocab allocate": "the same",
    "subgraft vocab learn --text train.fr --size 8000 --like vocap": "the same",
    "subgraft generate --model MODEL --input chapters": "a model of documents; tests/interfaces/api",
    "subgraft evaluate --hypotheses out.txt": "its outputs",
    "subgraft plan configs/table3": "the network",
    "subgraft store gc": "the reader's own configurations",
}


def commands(page: Path) -> list[str]:
    """The commands of the page, in its order."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def is_run(command: str) -> bool:
    return not command.startswith(tuple(NOT_RUN))


def typed(command: str) -> str:
    """The command with a reader's names."""
    for name, own in NAMES.items():
        command = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w/.-])", own, command)
    return command


def test_what_is_not_run_is_on_a_page(repository: Path) -> None:
    shown = [command for pages in PAGES.values() for page in pages for command in commands(repository / page)]
    assert not [start for start in NOT_RUN if not any(command.startswith(start) for command in shown)]
    assert sum(map(is_run, shown)) > 30


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder like a clone, after `make demo` and `subgraft example try`; and the files that README.md describes."""
    root = Path(request.config.rootpath)
    folder = tmp_path_factory.mktemp("pages") / "clone"
    folder.mkdir()
    (folder / "configs").symlink_to(root / "configs")
    (demo,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/(.*)$", (root / "Makefile").read_text(), flags=re.MULTILINE)
    run(demo, folder)
    run("subgraft example try", folder)
    for name in ("everyday", "manuals"):
        (folder / "texts" / name).mkdir(parents=True)
        for side in ("en", "de"):
            for split in ("train", "dev", "test"):
                text = folder / "try" / f"{'contracts' if split == 'train' else 'test'}.{side}"
                (folder / "texts" / name / f"{split}.{side}").write_bytes(text.read_bytes())
    readme = (root / "README.md").read_text(encoding="utf-8")
    (manuals,) = re.findall(r"^```yaml\n(name: manuals\n.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL)
    for name in ("manuals", "mine"):
        (folder / f"{name}.yaml").write_text(manuals.replace("target: fr", "target: de"), encoding="utf-8")
    (folder / "tokens.txt").write_text("▁Vertrag\n", encoding="utf-8")
    return folder


def run(command: str, folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("SUBGRAFT_HOME", None)
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=1800)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, f"{command}\n{said}"


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_does_what_it_says(name: str, clone: Path, repository: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clone, tmp_path / "clone", symlinks=True))
    for page in PAGES[name]:
        for command in filter(is_run, commands(repository / page)):
            run(typed(command), folder)
