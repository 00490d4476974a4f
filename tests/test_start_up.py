"""What answers at once imports nothing heavy: help, plans, mistakes in a configuration, and a run with all done.

A worker of a run imports what its stage needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hubs import hub
from small_experiments import TINY, finish, written
from subgraft.interfaces.cli import GROUPS, parser
from subgraft.interfaces.cli.arguments import Parser

HEAVY = ("torch", "transformers", "gensim", "nltk", "sacrebleu", "scipy", "sklearn", "ray", "matplotlib")
WITHOUT_A_MODEL = ("corpora", "vocabularies", "report")
# Runs the command, and reports which modules that took, last of all that it writes.
WATCHED = """
import json, sys
from subgraft.interfaces.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code or 0
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""


def ended(folder: Path, *arguments: str | Path) -> tuple[int, set[str], str]:
    """Exit code, top-level modules and output of a command in a process of its own; the store is folder/home."""
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home"), "MPLBACKEND": "agg"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    *message, last = done.stderr.splitlines()
    code, modules = json.loads(last)
    return code, set(modules), done.stdout + "\n".join(message)


def imported(module: str) -> set[str]:
    """Top-level modules in a process that has imported this one."""
    program = (
        f"import json, sys, {module}; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    return set(json.loads(done.stdout))


def require_light(modules: set[str], *more: str) -> None:
    assert "subgraft" in modules
    assert not modules & {*HEAVY, *more}


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help"), ("--version",)])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, modules, _ = ended(tmp_path, *arguments)
    assert code == 0
    require_light(modules, "mlflow", "numpy", "rich")


@pytest.mark.parametrize("command", [name for names in GROUPS.values() for name in names])
def test_a_command_is_that_of_the_module_which_the_table_names(command: str) -> None:
    def named(parser: Parser) -> dict[str, str]:
        (commands,) = (each for each in parser._actions if each.choices and not each.option_strings)
        return {name: each.format_help() for name, each in dict(commands.choices or {}).items()}

    (group,) = (names for names in GROUPS.values() if command in names)
    assert [*named(parser(command))] == [*group]
    assert named(parser(command))[command] == named(parser())[command]


def test_a_command_imports_its_own_module_alone(tmp_path: Path) -> None:
    program = WATCHED.replace('.partition(".")[0]', "")
    done = subprocess.run(
        [sys.executable, "-c", program, "store", "--help"], capture_output=True, text=True, check=True
    )
    modules = json.loads(done.stderr.splitlines()[-1])[1]
    inside = [name for name in modules if name.removeprefix("subgraft.interfaces.cli.") in GROUPS]
    assert inside == ["subgraft.interfaces.cli.store"]


def test_what_reads_vocabularies_alone_imports_no_torch(tmp_path: Path) -> None:
    for command in (
        ("example", "try"),
        ("vocab", "learn", "--text", "try/contracts.en", "--size", "500", "--out", "old"),
        ("vocab", "learn", "--text", "try/contracts.de", "--size", "600", "--like", "old", "--out", "new"),
        ("vocab", "compare", "old", "new", "--text", "try/contracts.de"),
        ("vocab", "extend", "old", "--text", "try/contracts.de", "--add", "20", "--out", "extended"),
        ("similar", "--vocab", "old", "--token", "▁der"),
        ("corpora", "list"),
    ):
        code, modules, message = ended(tmp_path, *command)
        assert code == 0, message
        assert not modules & {"torch", "transformers", "ray"}, command


# Runs commands one after the other, and reports for each whether torch has been imported by then.
WATCHED_IN_TURN = """
import json, sys
from subgraft.interfaces.cli import main
for line in sys.stdin.read().splitlines():
    print(json.dumps([main(line.split()), "torch" in sys.modules]))
"""


def test_a_model_that_is_nowhere_is_reported_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the court\n")
    commands = """
        generate --model toys/absent
        generate --beam 2 toys/absent
        predict toys/absent --input text
        serve . toys/absent
        export toys/absent --to transformers --out out
        convert toys/absent --out out
        transfer --model toys/absent --vocab toys/absent --out out
        transfer --model . --vocab toys/absent --out out
        embed --model toys/absent --generator avg --tokens text --out out.safetensors
        assemble --model toys/absent --out out
        generator train --model toys/absent --text text --languages en-en --out out
        fit toys/absent --text text --out out
        advise toys/absent --text text
    """
    lines = commands.strip().splitlines()
    program = [sys.executable, "-c", WATCHED_IN_TURN]
    with hub(tmp_path) as server:
        environment = {**os.environ, "HF_ENDPOINT": server.address, "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(
            program, input="\n".join(lines), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
    assert [json.loads(each) for each in done.stdout.splitlines()] == [[2, False]] * len(lines), done.stderr
    assert done.stderr.count("toys/absent: neither a directory nor a model on the hub") == len(lines)


@pytest.mark.parametrize(
    ("command", "text", "complaint"),
    [
        ("plan", None, "no such configuration file"),
        ("run", "name: [", "not YAML"),
        ("search", "name: x\nlanguages: {source: en, target: de}\nfinetun: {epochs: 2}\n", "did you mean 'finetune'?"),
        ("plan", TINY.replace("initialiser: mean", "initialiser: mea"), "did you mean 'mean'?"),
        ("run", TINY.replace("d_model: 16", "d_model: 17"), "not divisible by attention_heads"),
        ("search", TINY + "preset: large\n", "expected 'small'"),
    ],
)
def test_a_mistake_in_a_configuration_is_reported_before_anything_heavy(
    command: str, text: str | None, complaint: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    code, modules, message = ended(tmp_path, command, "config.yaml")
    assert (code, complaint in message) == (2, True), message
    require_light(modules, "mlflow", "numpy")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_corpora_that_are_not_there_are_reported_before_anything_heavy(command: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(TINY)
    code, modules, message = ended(tmp_path, command, "config.yaml")
    assert code == 2 and "upstream" in message
    require_light(modules, "mlflow")


def test_a_plan_of_an_experiment_that_was_never_run_imports_nothing_heavy(tmp_path: Path, repository: Path) -> None:
    code, modules, message = ended(tmp_path, "plan", repository / "configs" / "quickstart.yaml")
    assert code == 0 and "to run" in message and "parameters" in message, "with the sizes of every training"
    require_light(modules, "mlflow")


def test_what_is_finished_is_planned_run_and_shown_without_anything_heavy(tmp_path: Path) -> None:
    """A run with everything there starts no Ray; it is recorded, so that MLflow is what it takes."""
    finish(written(tmp_path, TINY))
    code, modules, message = ended(tmp_path, "plan", "config.yaml")
    assert code == 0 and "cached" in message and "to run" not in message
    require_light(modules, "mlflow")
    code, modules, message = ended(tmp_path, "run", "config.yaml")
    assert code == 0 and "tiny: vocabularies compared" in message and "report.html" in message
    assert "mlflow" in modules
    require_light(modules - {"scipy"})  # which MLflow itself imports


@pytest.mark.parametrize("stage", WITHOUT_A_MODEL)
def test_a_worker_imports_no_torch_for_stages_without_a_model(stage: str) -> None:
    result = imported(f"subgraft.orchestration.execution.worker, subgraft.pipeline.compute.{stage}")
    assert not result & {"torch", "transformers", "mlflow", "ray", "gensim", "matplotlib"}


@pytest.mark.slow
def test_a_model_is_saved_without_importing_deepspeed(tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, TINY))
    plain, mean = pipeline.systems
    model, vocabulary = store.path(plain.finetune), store.path(mean.finetune) / "decoder"
    arguments = ("--model", model, "--vocab", vocabulary, "--method", "mean", "--out", tmp_path / "out")
    code, modules, message = ended(tmp_path, "transfer", *arguments)
    assert code == 0, message
    assert "transformers" in modules and "deepspeed" not in modules
