"""Modules that must not run: one for every name that Python could look for, in a folder that Subgraft only reads."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# The console script of an installed package: its own folder is first on the path, the current one is nowhere.
LAUNCHER = """
import json, sys
from subgraft.interfaces.cli import main
for arguments in json.loads(sys.argv.pop()):
    sys.argv[1:] = arguments
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    print("CODE", code, *arguments, flush=True)
"""
CANARY = "import sys\nwith open({marker!r}, 'a') as file:\n    print(__name__, 'ran in', sys.orig_argv, file=file)\n"
ALSO = ("sitecustomize", "usercustomize", "subgraft_plugins")


@dataclass(frozen=True)
class Canaries:
    """A folder full of them. bin: where the launcher is; marker: the file that a canary writes to when it runs."""

    folder: Path
    bin: Path
    marker: Path

    @classmethod
    def planted(cls, place: Path) -> Canaries:
        """A module for each name that is on this process's path, and a package in place of some."""
        made = cls.at(place)
        folder, text = made.folder, CANARY.format(marker=str(made.marker))
        names = {module.name for module in pkgutil.iter_modules()} | sys.stdlib_module_names | set(ALSO)
        for name in filter(str.isidentifier, names - {"subgraft", "torch"}):
            (folder / f"{name}.py").write_text(text)
        for name in ("subgraft", "torch"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(text)
        return made

    @classmethod
    def at(cls, place: Path) -> Canaries:
        """None as yet: an empty folder for them, and the launcher."""
        made = cls(place / "canaries", place / "bin", place / "ran.txt")
        for folder in (made.folder, made.bin):
            folder.mkdir(parents=True)
        (made.bin / "launcher").write_text(LAUNCHER)
        return made

    def command(self, arguments: str) -> list[str]:
        """Of a process that runs the commands of a JSON list of lists; its current directory is to be the folder."""
        return [sys.executable, str(self.bin / "launcher"), arguments]

    def run(self, *commands: tuple[str, ...], seconds: float = 600) -> str:
        """Run commands among the canaries, one after another; what they printed. Fails where a canary ran."""
        environment = {**os.environ, "SUBGRAFT_HOME": str(self.folder.parent / "home"), "HF_HUB_OFFLINE": "1"}
        for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "PYTHONPATH", "PYTHONSAFEPATH"):
            environment.pop(name, None)
        done = subprocess.run(
            self.command(json.dumps(commands)),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not self.marker.exists(), self.marker.read_text()[:3000] + done.stdout[-2000:]
        return done.stdout
