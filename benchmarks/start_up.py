"""CPU seconds until a command answers, beside those of an interpreter that does nothing.

    python benchmarks/start_up.py [--repeats N]

Commands that need no model should take a fraction of a second. A wholly cached run waits for MLflow's import.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SUBGRAFT = (sys.executable, "-m", "subgraft")
COMMANDS: dict[str, tuple[str, ...]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "subgraft --help": (*SUBGRAFT, "--help"),
    "no such configuration": (*SUBGRAFT, "plan", "nowhere.yaml"),
    "a mistake": (*SUBGRAFT, "plan", str(REPOSITORY / "configs" / "quickstart.yaml"), "finetune.epochs=none"),
    "plan quickstart": (*SUBGRAFT, "plan", str(REPOSITORY / "configs" / "quickstart.yaml")),
}


def cpu_seconds(command: tuple[str, ...], folder: Path) -> float:
    """User and system seconds of a command, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home")}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    nothing = 0.0
    with tempfile.TemporaryDirectory() as place:
        for name, command in COMMANDS.items():
            cpu_seconds(command, Path(place))  # the first writes bytecode
            seconds = statistics.median(cpu_seconds(command, Path(place)) for _ in range(repeats))
            nothing = nothing or seconds
            print(f"{name:24} {seconds:6.2f} s of CPU, {seconds / nothing:6.1f} × an interpreter")


if __name__ == "__main__":
    main()
