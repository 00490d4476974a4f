"""BART's table in small (Lewis et al. 2020, section 4): one budget of updates, several objectives, three tasks.

    python studies/objectives_compared.py configs/bart.yaml --commands [key=value …] | sh
    python studies/objectives_compared.py configs/bart.yaml [key=value …] --out DIR

--commands prints the runs that are left: each pretrains English text on an objective and finetunes the model on a task
(the kind of a question, answers in passages, questions on passages), next to a model that is not pretrained and has a
vocabulary of the task. Without it, what the runs have left in the store is written to results.jsonl and table.md in
DIR, and the table is printed: means over the seeds of finetuning, with 95 % bands by Student's t.

Every row has 4 layers of the same width; an encoder-decoder has 2 and 2, which its attention to the encoder makes 10 %
larger. A BERT writes as an encoder-decoder of 4 and 4 layers.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from finished_runs import exit_code, write_results
from seeds import mean_with_band
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store

_SIZE = "d_model: 192, attention_heads: 4, ffn_dim: 768, max_positions: 256"
BART = (f"model={{family: bart, {_SIZE}, encoder_layers: 2, decoder_layers: 2}}",)
_ONE_SIDE = ("sides=[decoder]", "downstream.shared=false")
_WORDPIECE = ("upstream.vocabulary.kind=wordpiece", "downstream.vocabulary.kind=wordpiece")
BERT = (f"model={{family: bert, {_SIZE}, layers: 4}}", *_ONE_SIDE, *_WORDPIECE)
GPT2 = (f"model={{family: gpt2, {_SIZE}, layers: 4}}", *_ONE_SIDE)
XLNET = (f"model={{family: xlnet, {_SIZE}, layers: 4}}", *_ONE_SIDE)


@dataclass(frozen=True)
class Row:
    """A pretraining. objective: one entry of upstream.objectives.  writes: whether its model learns from pairs."""

    objective: str
    model: tuple[str, ...]
    writes: bool = True


ROWS: Mapping[str, Row] = {
    "language model": Row("{kind: causal}", GPT2, writes=False),
    "permuted language model": Row("{kind: permutation, spans: false, bidirectional: false}", XLNET, writes=False),
    "masked": Row("{kind: masked, sentences_per_document: 6}", BERT),
    "multitask masked": Row("{kind: multitask-masked}", BERT),
    "masked seq2seq": Row("{kind: masked-seq2seq}", BART),
    "token masking": Row("{kind: denoising, noises: {masking: 0.15}}", BART),
    "token deletion": Row("{kind: denoising, noises: {deletion: 0.15}}", BART),
    "infilling": Row("{kind: denoising, noises: {infilling: 0.3}}", BART),
    "permutation": Row("{kind: denoising, noises: {permutation: 1}}", BART),
    "rotation": Row("{kind: denoising, noises: {rotation: 1}}", BART),
    "infilling + permutation": Row("{kind: denoising, noises: {infilling: 0.3, permutation: 1}}", BART),
}
# The rows that are compared unless others are named.
MAIN = (
    "language model",
    "permuted language model",
    "masked",
    "multitask masked",
    "masked seq2seq",
    "infilling",
    "infilling + permutation",
)
TASKS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "question kind": (("task=classification", "downstream.corpus=question-kind"), {"accuracy": "accuracy"}),
    "answers": (("task=span-extraction", "downstream.corpus=answers"), {"token F1": "F1"}),
    "questions": (("task=question-generation", "downstream.corpus=questions"), {"BLEU": "BLEU", "ROUGE-L": "ROUGE-L"}),
}
PRETRAINED, UNTRAINED = "pretrained", "untrained"
SYSTEMS = f"systems=[{{name: {PRETRAINED}, vocabulary: upstream}}, {{name: {UNTRAINED}, pretraining: none}}]"


@dataclass(frozen=True)
class Result:
    """A row's test scores on a task: by metric, one a seed. start: pretrained, or untrained."""

    row: str
    task: str
    start: str
    scores: dict[str, list[float]]


def overrides(row: str, task: str) -> list[str]:
    """What the configuration's run of a row on a task changes."""
    settings = ROWS[row]
    name = f"name=bart-{row}-{task}".replace(" + ", "-").replace(" ", "-")
    return [name, f"upstream.objectives=[{settings.objective}]", *settings.model, *TASKS[task][0], SYSTEMS]


def runs(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Rows and the tasks that they can be finetuned on."""
    for row in rows:
        for task in TASKS:
            if ROWS[row].writes or task != "questions":
                yield row, task


def results(config: Path, rows: Sequence[str], own: Sequence[str]) -> Iterator[Result]:
    """Every run whose systems have been evaluated with all seeds."""
    store = Store(default_home())
    for row, task in runs(rows):
        experiment = load(config, Experiment, [*overrides(row, task), *own])
        systems = Pipeline(experiment, config.absolute().parent).systems
        for start in (PRETRAINED, UNTRAINED):
            done = [each.evaluate for each in systems if each.system.name == start and store.find(each.evaluate)]
            if len(done) < len(experiment.seeds):
                continue
            scores = [json.loads((store.artifact(each) / "evaluation.json").read_text())["scores"] for each in done]
            yield Result(row, task, start, {name: [each[name]["value"] for each in scores] for name in scores[0]})


def table(finished: Sequence[Result]) -> str:
    """Markdown: a row for each objective, and one for each model that was not pretrained."""
    columns = [(task, metric) for task, (_, metrics) in TASKS.items() for metric in metrics]
    shown = [f"{task}: {TASKS[task][1][metric]}" for task, metric in columns]
    lines = [["objective", *shown], ["---", *["--:"] * len(shown)]]
    by_place = {(each.row, each.start, each.task): each.scores for each in finished}
    for row, start in dict.fromkeys((each.row, each.start) for each in finished):
        cells = [by_place.get((row, start, task), {}).get(metric) for task, metric in columns]
        name = row if start == PRETRAINED else f"{row}'s model, untrained"
        lines.append([name, *("–" if values is None else mean_with_band(values) for values in cells)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(MAIN), metavar="OBJECTIVE")
    mode = options.add_mutually_exclusive_group(required=True)
    mode.add_argument("--commands", action="store_true", help="print the runs that are left")
    mode.add_argument("--out", type=Path, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        finished = list(results(args.config, args.rows, args.overrides))
        if args.commands:
            done = {(each.row, each.task) for each in finished if each.start == UNTRAINED}
            for row, task in runs(args.rows):
                if (row, task) not in done:
                    print(shlex.join(["subgraft", "run", str(args.config), *overrides(row, task), *args.overrides]))
            return
        if not finished:
            raise UserError("none of these runs is finished", where=str(args.config), hint="See --commands.")
        write_results(finished, table(finished), args.out)

    return exit_code("objectives_compared", answer)


if __name__ == "__main__":
    sys.exit(main())
