"""The circumstances under which an artifact was made, which are not part of its identity."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import subgraft
from subgraft.base.security.redaction import redact_words

LIBRARIES = ("subgraft", "torch", "transformers", "tokenizers", "sentencepiece", "numpy", "ray", "deepspeed")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The command line (without secrets), commit, versions and device.

    The commit is the checkout's, with `+` if it has changes; None for an installed copy.
    """

    argv: tuple[str, ...] = ()
    git_commit: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def command(self) -> str:
        """The command of Subgraft or the script that was run, as a shell takes it; empty in a notebook or a test."""
        program = Path(*self.argv[:1])
        if program.name in ("subgraft", "subgraft.exe") or program.parts[-2:] == ("subgraft", "__main__.py"):
            return shlex.join(["subgraft", *self.argv[1:]])
        is_script = program.suffix == ".py" and not program.name.startswith(("__", "ipykernel"))
        return shlex.join(["python", *self.argv]) if is_script else ""

    @classmethod
    def here(cls) -> Provenance:
        """Of this process, on the CPU."""
        versions = {"python": platform.python_version()}
        for library in LIBRARIES:
            try:
                versions[library] = metadata.version(library)
            except metadata.PackageNotFoundError:
                continue
        package, commit = Path(subgraft.__file__).parent, None
        # A copy installed into a virtual environment inside some checkout is not of that checkout.
        if _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None:
            commit = _git(package, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+")
        return cls(redact_words(sys.argv), commit, versions)


def _git(package: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(package), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
