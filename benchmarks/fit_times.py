"""How long `subgraft fit` says that it takes, against how long it takes: said / taken.

    python benchmarks/fit_times.py --translator MODEL --decoder MODEL --encoder MODEL [--only DATA ...]

The files are those of `subgraft example`. Each fit has a store of its own, so nothing is known of earlier trainings.
MODEL is anything that `fit` takes; `make demo` trains a translator, the example's configurations the other two. The
time begins when the plan is printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from measurements import cannot, measurements, options

SUBGRAFT = (sys.executable, "-m", "subgraft")
# The line of the plan, and what it says.
SAID = re.compile(r"trainings? .*about (.+)$")
UNITS = {"h": 3600, "min": 60, "s": 1}
DATA = {
    "pairs": ("translator", ("--pairs", "contracts.en", "contracts.de", "--languages", "en-de")),
    "text": ("decoder", ("--text", "contracts.txt")),
    "text and other": ("decoder", ("--text", "contracts.txt", "--other", "everyday/test.de")),
    "chat": ("decoder", ("--chat", "chats.jsonl")),
    "labels": ("encoder", ("--labels", "domains.jsonl")),
}


class Fit(NamedTuple):
    """Seconds."""

    said: float
    taken: float
    trainings: float


def seconds(said: str) -> float:
    """Of a duration in words, such as 12 min 30 s."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (h|min|s)\b", said))


def fit(arguments: tuple[str, ...], files: Path, folder: Path) -> Fit:
    """Run a fit in a store of its own. Raises SystemExit if it fails."""
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home"), "PYTHONUNBUFFERED": "1"}
    command = (*SUBGRAFT, "fit", *arguments, "--out", str(folder / "out"), "--quick")
    said, begun = 0.0, 0.0
    process = subprocess.Popen(
        command, cwd=files, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if (match := SAID.search(line)) and not begun:
            said, begun = seconds(match[1]), time.monotonic()
    if process.wait() or not begun:
        raise SystemExit("".join(lines))
    return Fit(said, time.monotonic() - begun, _training_seconds(folder / "home"))


def _training_seconds(home: Path) -> float:
    records = [json.loads(path.read_text()) for path in home.glob("store/finetune/*/record.json")]
    return sum(float(record["summary"]["training_seconds"]) for record in records)


def main() -> None:
    parser = options(__doc__)
    for model in dict.fromkeys(model for model, _ in DATA.values()):
        parser.add_argument(f"--{model}", metavar="MODEL")
    parser.add_argument("--only", nargs="+", choices=DATA, metavar="DATA")
    arguments = parser.parse_args()
    models = {name: getattr(arguments, name) for name, _ in DATA.values()}
    chosen = [name for name, (model, _) in DATA.items() if models[model] and name in (arguments.only or DATA)]
    if not chosen:
        cannot("no model: make demo trains one")
    with measurements(__doc__, arguments) as table, tempfile.TemporaryDirectory() as place:
        files = Path(place, "example")
        subprocess.run((*SUBGRAFT, "example", str(files)), check=True, stdout=subprocess.DEVNULL)
        for name in chosen:
            model, data = DATA[name]
            directory = Path(models[model]).absolute()
            base = str(directory) if directory.exists() else models[model]
            taken = fit((base, *data), files, Path(os.environ.get("KEEP") or place, name))
            table.add(
                f"fit --quick of {name}",
                said=taken.said,
                taken=taken.taken,
                updates_alone=taken.trainings,
                said_to_taken=taken.said / taken.taken,
            )


if __name__ == "__main__":
    main()
