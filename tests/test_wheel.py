"""The wheel, built as pip builds it, works in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
WITHOUT_RAY = """
import sys
import subgraft
print(subgraft.__file__)
for name in ("load", "learn_vocabulary", "extend", "trim", "transfer", "graft", "translate", "evaluate", "fit"):
    getattr(subgraft, name)
print(sorted({"ray", "mlflow", "deepspeed"} & set(sys.modules)))
"""


def ended(*command: str | Path, folder: Path) -> str:
    """Output of a command that must succeed, in an empty folder."""
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this clone."""
    repository, folder = Path(__file__).resolve().parents[1], tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, repository)
    ended(*pip, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_it_has_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"subgraft"}
    assert "subgraft/py.typed" in names and not any(name.endswith((".gz", ".safetensors")) for name in names)


def test_it_names_its_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(metadata).decode()
    extras = {line.split(": ")[1] for line in text.splitlines() if line.startswith("Provides-Extra")}
    assert {"deepspeed", "adapters", "ctranslate2", "llamacpp", "mtdata", "dev"} <= extras


def test_it_is_installed_and_runs_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are those of this environment: to download them again would take longer than all other tests."""
    environment, folder = tmp_path / "environment", tmp_path / "empty"
    folder.mkdir()
    ended(sys.executable, "-m", "venv", environment, folder=folder)
    python = environment / "bin" / "python"
    ended(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, folder=folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in here))
    place, heavy = ended(python, "-c", WITHOUT_RAY, folder=folder).splitlines()
    assert Path(place).is_relative_to(packages) and heavy == "[]"
    command = environment / "bin" / "subgraft"
    assert "Fit pretrained" in ended(command, "--help", folder=folder)
    assert '"$defs"' in ended(command, "schema", folder=folder)
    assert "20,000" in ended(command, "corpora", "list", folder=folder)
