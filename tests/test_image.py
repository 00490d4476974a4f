"""The container image for one machine, as far as it can be checked without a container engine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

Instructions = list[tuple[str, str]]


@pytest.fixture(scope="module")
def instructions(repository: Path) -> Instructions:
    text = (repository / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def arguments_of(instructions: Instructions, name: str) -> list[str]:
    return [rest for each, rest in instructions if each == name]


def test_it_follows_the_rules_of_images(instructions: Instructions) -> None:
    """Those of hadolint that apply: DL3006, DL3007, DL3002, DL3020, DL3025, DL3042, DL3000, DL3045."""
    (base,) = arguments_of(instructions, "FROM")
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", base)
    assert arguments_of(instructions, "USER") == ["1000"]
    names = [name for name, _ in instructions]
    assert "ADD" not in names and names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")
    assert json.loads(arguments_of(instructions, "ENTRYPOINT")[0]) == ["subgraft"]
    for command in arguments_of(instructions, "RUN"):
        assert "sudo" not in command and ("pip install" not in command or "--no-cache-dir" in command)
    paths = [*arguments_of(instructions, "WORKDIR"), *(rest.split()[-1] for rest in arguments_of(instructions, "COPY"))]
    assert all(path.startswith("/") for path in paths)


@pytest.mark.slow
def test_its_pip_line_installs_what_it_copies(instructions: Instructions, repository: Path, tmp_path: Path) -> None:
    """In a fresh environment, with the folder of the image in a temporary one; downloads all dependencies."""
    build, environment = tmp_path / "build", tmp_path / "environment"
    for line in arguments_of(instructions, "COPY"):
        *sources, target = line.split()
        for source in sources:
            copied = tmp_path / target.strip("/") / ("" if target.endswith("/") else ".")
            if (repository / source).is_dir():
                shutil.copytree(repository / source, copied, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                copied.mkdir(parents=True, exist_ok=True)
                shutil.copy(repository / source, copied)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    (pip,) = (line for line in arguments_of(instructions, "RUN") if line.startswith("pip "))
    words = shlex.split(pip.replace("/build", str(build)))
    done = subprocess.run([environment / "bin" / words[0], *words[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = subprocess.run([environment / "bin" / "subgraft", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("subgraft ")
