"""CPU seconds until a command answers or a worker can begin, compared with those of an interpreter that does nothing.

    python benchmarks/start_up.py [--repeats N] [--home STORE]

Commands that need no model should take a fraction of a second. STORE has a finished quickstart in it (`make demo`): it
is copied, planned and run again, and its registered model writes one sentence, as transformers does with its files.
A wholly cached run and a registered model wait for MLflow's import; a worker for what its stage needs.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measurements import measurements, options

REPOSITORY = Path(__file__).resolve().parent.parent
SUBGRAFT = (sys.executable, "-m", "subgraft")
QUICKSTART = str(REPOSITORY / "configs" / "quickstart.yaml")
COMMANDS: dict[str, tuple[str, ...]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "subgraft --help": (*SUBGRAFT, "--help"),
    "no such configuration": (*SUBGRAFT, "plan", "nowhere.yaml"),
    "a mistake": (*SUBGRAFT, "plan", QUICKSTART, "finetune.epochs=none"),
    "plan quickstart": (*SUBGRAFT, "plan", QUICKSTART),
}
CACHED: dict[str, tuple[str, ...]] = {
    "plan, all cached": (*SUBGRAFT, "plan", QUICKSTART),
    "run, all cached": (*SUBGRAFT, "run", QUICKSTART),
}
MODEL = "quickstart-en-de"
SENTENCE = "The contract ends in March."
# The same model and search, by transformers alone; the tokenizer of this model is SentencePiece's.
TRANSFORMERS = f"""
import sys
from pathlib import Path
from sentencepiece import SentencePieceProcessor
import torch
from transformers import AutoModelForSeq2SeqLM
folder = Path(sys.argv[1])
pieces = SentencePieceProcessor(model_file=str(next(folder.glob("encoder/*.model"))))
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
model.generate(input_ids=torch.tensor([pieces.encode({SENTENCE!r})]), num_beams=4, max_new_tokens=40)
"""
WORKER = (sys.executable, "-c", "import ray, subgraft.orchestration.execution.worker")
STAGES = ("corpora", "vocabularies", "gap", "report", "transfer", "finetune", "evaluate")
WORKERS = {
    f"worker: {stage}": (
        sys.executable,
        "-c",
        f"import ray, subgraft.orchestration.execution.worker, subgraft.pipeline.compute.{stage}",
    )
    for stage in STAGES
}


def cpu_seconds(command: tuple[str, ...], folder: Path) -> float:
    """User and system seconds of a command, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home")}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def generation(folder: Path) -> dict[str, tuple[str, ...]]:
    """Commands that write one sentence with the registered model of the home in the folder."""
    line = folder / "sentence.txt"
    line.write_text(SENTENCE + "\n", encoding="utf-8")
    model = next((folder / "home" / "mlartifacts").glob("*/artifacts/model"))
    generate = (*SUBGRAFT, "generate", "--input", str(line))
    return {
        "models show": (*SUBGRAFT, "models", "show", MODEL),
        "transformers: one sentence": (sys.executable, "-c", TRANSFORMERS, str(model)),
        "generate, a directory": (*generate, str(model)),
        "generate, a registered model": (*generate, f"models:/{MODEL}@champion"),
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    nothing = 0.0
    repeats = 1 if arguments.quick else arguments.repeats
    with measurements(__doc__, arguments) as table, tempfile.TemporaryDirectory() as place:
        folder, commands = Path(place), {**COMMANDS, "a worker, without a stage": WORKER, **WORKERS}
        if arguments.home:
            shutil.copytree(arguments.home, folder / "home")
            commands = {**commands, **CACHED, **generation(folder)}
        for name, command in commands.items():
            cpu_seconds(command, folder)  # the first writes bytecode
            seconds = statistics.median(cpu_seconds(command, folder) for _ in range(repeats))
            nothing = nothing or seconds
            table.add(name, CPU_seconds=seconds, times_an_interpreter=seconds / nothing)


if __name__ == "__main__":
    main()
