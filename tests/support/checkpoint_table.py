"""docs/checkpoints.md: what each published checkpoint can be used for, measured on its layout with tiny weights.

    PYTHONPATH=tests:tests/support .venv/bin/python tests/support/checkpoint_table.py [--out FILE] [MODEL …]

Each cell is what happened: the command ran and its result was right, so many of so many outputs equal transformers',
or the first sentence of the message that refused. Named models are measured again, the others' rows remain.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from transformers import AutoModelForMaskedLM

from published import CHECKPOINTS, Checkpoint, english, german
from small_experiments import perform_step, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Family, family_of
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.hub import read_config
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.orchestration.store.step import in_order
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from transformers_outputs import differing, equal_outputs, lines

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md"
COLUMNS = ("ids", "vocab learn --like", "compare", "similar", "transfer", "generate", "pipeline")
YES = "yes"
TEXTS, LINES = 20, 1000


class Bench:
    """One published checkpoint in a folder, and the results there."""

    def __init__(self, checkpoint: Checkpoint, place: Path) -> None:
        self.checkpoint, self.place = checkpoint, place
        self.model, self.text = place / "model", place / "text.txt"
        checkpoint.publish(self.model)
        self.text.write_text("".join(f"{line}\n" for line in german(300)), encoding="utf-8")

    @property
    def family(self) -> Family:
        return family_of(read_config(self.model))

    def said(self, *arguments: str | Path) -> str:
        """Standard output of a command. Raises UserError with its message where it ends badly."""
        out, message = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(message):
            code = main([str(one) for one in arguments])
        if code:
            raise UserError(message.getvalue().strip().splitlines()[-2 if "\n  " in message.getvalue() else -1])
        return out.getvalue()

    @property
    def is_assembled(self) -> bool:
        """Whether an encoder-decoder is made from the model, which does not generate text itself."""
        return isinstance(self.family, EncoderOnly) and self.family.decoder_class is not None

    @property
    def learnt(self) -> Path:
        """A vocabulary of the text, with the model's special tokens."""
        out = self.place / "vocabulary"
        if not out.exists():
            kind = "wordpiece" if self.family.model_type == "bert" else "unigram"
            size = str(320 + len(load_tokenizers(self.model)["decoder"].languages))
            options = ("--size", size, "--kind", kind, "--no-byte-fallback", "--like", self.model, "--out", out)
            self.said("vocab", "learn", "--text", self.text, *options)
        return out

    @property
    def transferred(self) -> Path:
        """The model around that vocabulary; for an encoder, around an encoder-decoder assembled from it."""
        out, model = self.place / "transferred", self.model
        if not out.exists():
            if self.is_assembled:
                model = self.place / "assembled"
                self.said("assemble", "--model", self.model, "--out", model)
            both = self.family.one_table or not self.family.generates
            sides = "encoder,decoder" if both else "decoder"
            options = ("--method", "mean", "--sides", sides, "--out", out)
            self.said("transfer", "--model", model, "--vocab", self.learnt, *options)
        return out


def ids(bench: Bench) -> str:
    texts = lines(LINES)
    different = differing(bench.model, bench.checkpoint, texts)
    return f"{len(texts) - len(different):,} of {len(texts):,}"


def learn_like(bench: Bench) -> str:
    learnt, own = Tokenizer.load(bench.learnt), load_tokenizers(bench.model)["decoder"]
    assert set(learnt.languages) == set(own.languages)
    for role, token in own.special.items():
        if role in ("bos", "eos", "pad", "mask"):
            assert learnt.pieces[learnt.special[role]] == own.pieces[token], role
    return YES


def compare(bench: Bench) -> str:
    message = bench.said("vocab", "compare", bench.model, bench.learnt, "--text", bench.text)
    assert "unseen" in message.lower()
    return YES


def similar(bench: Bench) -> str:
    own = load_tokenizers(bench.model)["decoder"]
    learnt = Tokenizer.load(bench.learnt)
    entry = next(entry for entry in learnt.ids if entry not in own.ids and len(entry.surface) > 3)
    from subgraft.subwords.vocabulary.entry import spell_entry

    message = bench.said("similar", "--vocab", bench.model, "--token", spell_entry(entry, own.mark))
    assert "subword" in message
    return YES


def transfer(bench: Bench) -> str:
    """It is loaded again, and generates; an encoder of which no encoder-decoder is made is loaded by transformers."""
    bundle, checkpoint = Bundle.load(bench.transferred), bench.checkpoint
    bundle.sequence_format(checkpoint.languages)
    if not bench.family.generates and not bench.is_assembled:
        AutoModelForMaskedLM.from_pretrained(bench.transferred)
        return YES
    pair = checkpoint.languages
    options = ("--languages", f"{pair.source}-{pair.target}") if pair else ()
    few = bench.place / "few.txt"
    few.write_text("".join(f"{line}\n" for line in english(3)), encoding="utf-8")
    message = bench.said("generate", "--model", bench.transferred, "--input", few, "--beam", "1", *options)
    assert len(message.splitlines()) == 3
    return YES if bench.family.generates else "assembled first"


def generate(bench: Bench) -> str:
    if not bench.family.generates:
        bench.said("generate", "--model", bench.model, "--input", bench.text)
    equal, different = equal_outputs(bench.model, bench.checkpoint, english(TEXTS))
    assert different > 1
    return f"{equal} of {TEXTS}"


def pipeline(bench: Bench) -> str:
    """A system with the task's vocabulary, finetuned for some updates and evaluated."""
    place = bench.place / "pipeline"
    place.mkdir()
    config = written(place, tiny(**_sections(bench)))
    whole = Pipeline(load(config, Experiment, ()), place)
    for step in in_order([steps.evaluate for steps in whole.systems]):
        with contextlib.redirect_stdout(io.StringIO()):
            perform_step(step, place / "home")
    return YES


def _sections(bench: Bench) -> dict[str, str]:
    family = bench.family
    kind = "wordpiece" if family.model_type == "bert" else "unigram"
    # Codes of many languages take room in a vocabulary.
    size = 90 + len(load_tokenizers(bench.model)["decoder"].languages) + (80 if kind == "wordpiece" else 0)
    vocabulary = f"{{kind: {kind}, size: {size}, byte_fallback: false}}"
    shared = ", shared: true" if family.one_table else ""
    objective = next(iter({"translation"} & family.objectives or family.objectives))
    sections = {
        "upstream": f"{{corpus: upstream, checkpoint: {bench.model}, objectives: [{{kind: {objective}}}]}}",
        "downstream": f"{{corpus: downstream, vocabulary: {vocabulary}{shared}}}",
        "systems": "[{name: mean, initialiser: mean}]",
        "finetune": "{epochs: 1, max_steps: 3, max_length: 60, batch_size: 500, precision: fp32, dev_sentences: 2}",
        "sides": "[encoder, decoder]" if family.one_table else "[decoder]",
    }
    if objective == "causal":
        sections |= {"task": "continuation", "languages": "{source: de, target: de}"}
    elif bench.checkpoint.languages is not None and bench.checkpoint.languages.source.startswith("de"):
        sections["languages"] = "{source: de, target: en}"
    return sections


MEASURES: Mapping[str, Callable[[Bench], str]] = dict(
    zip(COLUMNS, (ids, learn_like, compare, similar, transfer, generate, pipeline), strict=True)
)


def measured(name: str, columns: tuple[str, ...] = COLUMNS) -> dict[str, str]:
    """The row of a model: each cell by its column. Other errors are raised."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(CHECKPOINTS[name], Path(folder))
        return {column: _cell(MEASURES[column], bench) for column in columns}


def _cell(measure: Callable[[Bench], str], bench: Bench) -> str:
    try:
        return measure(bench)
    except UserError as error:
        message = str(error).splitlines()[0].removeprefix("subgraft: ").replace(f"{bench.model}: ", "")
        return f"refused: {message}"


def read_rows(page: str) -> dict[str, dict[str, str]]:
    """The rows of the page's measured table, by model and column; a line has all models with these cells."""
    measured_part = page.partition(BEGIN)[2].partition(END)[0]
    table = [line.strip("|").split("|") for line in measured_part.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in table]
    return {name: dict(zip(cells[0][1:], row[1:], strict=True)) for row in cells[1:] for name in row[0].split(", ")}


BEGIN, END = "<!-- Measured by tests/support/checkpoint_table.py: -->", "<!-- So far. -->"
HEAD = """

## Checkpoints that work

Each checkpoint is made in its published layout, file by file, with tiny random weights and a vocabulary trained by the
library of the published one, without the hub. Checkpoints with the same results share a line.

- `ids`: lines, also adversarial ones, with the ids of transformers' tokenizer, special tokens included.
- `vocab learn --like`: a vocabulary of new text takes over special tokens, language codes and normalisation.
- `compare`, `similar`: the commands answer.
- `transfer`: the model with that vocabulary is loaded again and generates; transformers loads an encoder.
- `generate`: greedy outputs equal to transformers', token by token.
- `pipeline`: an experiment with it as `upstream.checkpoint` runs from corpora to scores.
- `refused`: the command prints one message, writes nothing, and has exit code 2.

A special token that a text contains (`</s>` in a page on markup) is text here and a special token in transformers.
Added tokens that are not special (Pythia's runs of spaces, Qwen's `<tool_call>`, a user's words) are found in a text
and decoded as in transformers, with two exceptions: byte-level vocabularies decode their letters outside ASCII here,
and transformers gives tokens that users add to an M2M-100 the ids of its language codes, so they are left out.
MADLAD-400's tokenizer.json is read unchanged: transformers 5 rebuilds a T5's tokenizer, and maps characters without a
piece to MADLAD's `</s>`. Prompts of a GPT-2 or Qwen begin with the previous text's end, which transformers leaves to
users. Weights published as `pytorch_model.bin` alone need `subgraft convert` first.

A DeBERTa gets the head that its weights have: the published `lm_predictions`, for which `legacy: false` is set and
saved (by default transformers initialises the other head at random), or `cls.predictions`. An ELECTRA discriminator
predicts no tokens: use it for tasks with labels, in systems without a trained generator; for everything else use
ELECTRA's generator. umT5 (only its vocabulary can be used) and ByT5 (bytes, no subwords) are refused with an
alternative.

"""


def written_page(rows: Mapping[str, Mapping[str, str]], page: str) -> str:
    """The page with these rows in place of its measured part; what others have written there stays."""
    table = ["| model | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in CHECKPOINTS:
        if name in rows:
            lines.setdefault(tuple(rows[name][column] for column in COLUMNS), []).append(name)
    table += ("| " + " | ".join([", ".join(names), *cells]) + " |" for cells, names in lines.items())
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}{HEAD}" + "\n".join(table) + f"\n\n{END}{after}"


def write(arguments: argparse.Namespace) -> None:
    page: Path = arguments.out
    for name in arguments.models or CHECKPOINTS:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        rows = {**read_rows(text), name: measured(name)}
        print(json.dumps({name: rows[name]}), file=sys.stderr, flush=True)
        page.write_text(written_page(rows, text), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[*CHECKPOINTS, []])
    parser.add_argument("--out", type=Path, default=PAGE)
    write(parser.parse_args())
