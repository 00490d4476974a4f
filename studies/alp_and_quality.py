"""Does ALP say how good a model will be? One language, a causal model for each of some vocabularies.

    SUBGRAFT_DATA=… python studies/alp_and_quality.py --out DIR [--vocabularies bpe-1000 bpe-4000 bpe-4000-laws …]
        [--seeds 1 2] [--updates 1200] [--width 64] [--batch 4000]

As in figure 2 of Zheng et al. (EMNLP 2021), models are alike but for their vocabularies. They are GPT-2s, since what a
causal model assigns to a text is in bits per character, which masked models of different vocabularies do not share. A
vocabulary is KIND-SIZE, learnt on films' reviews, which models are pretrained on too. Two more set ALP and parameters
apart: KIND-SIZE-laws is learnt on as much text of Canadian Acts, and KIND-SIZE-wide gets a model of twice the width.
All spell what they lack in bytes.

Equal are the sentences of each update and their order, and so characters; not equal are tokens, parameters and CPU
seconds, which are reported. Each model is finetuned on two sets of labelled sentences, and their dev and test sentences
are classified; nothing is chosen by these. DIR/runs.jsonl keeps every finished model, so that the study goes on where
it stopped; then it writes table.md and alp.png, and prints the table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from alp_report import Run, write
from finished_runs import FinishedRuns, exit_code
from sentence_classes import Labelled, Scores, classified
from subgraft.base.errors import UserError
from subgraft.config.models import GPT2Settings
from subgraft.config.settings_base import VocabularyKind
from subgraft.config.training import PretrainSettings
from subgraft.data.sources.paths import require_data_folder
from subgraft.data.text.batches import evenly_spaced
from subgraft.data.text.reading import lines
from subgraft.evaluation.metrics.bits_per_character import bits_per_character
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.subwords.vocabulary.capacity import capacity
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.causal import CausalScores, Lines, set_bos_token
from subgraft.training.objectives.compute.single_stack import StackBatch, StackLoss
from timed_training import trained

SIZES = tuple(f"bpe-{size}" for size in (1000, 2000, 4000, 8000, 16000))
VOCABULARIES = (*SIZES, "unigram-4000", "bpe-4000-laws", "bpe-4000-wide")
TASKS = ("subjectivity", "sentence-polarity")
# Sentences of more characters are left out, so that no vocabulary cuts one short.
LONGEST, MAX_LENGTH = 400, 512
HELD_OUT = 500
LAYERS, HEADS = 2, 4


@dataclass(frozen=True)
class Vocabulary:
    """KIND-SIZE, KIND-SIZE-laws or KIND-SIZE-wide."""

    kind: VocabularyKind
    size: int
    of_laws: bool
    wide: bool

    @classmethod
    def named(cls, name: str) -> Vocabulary:
        """Raises UserError."""
        match = re.fullmatch(r"(bpe|unigram)-(\d+)(-laws|-wide)?", name)
        if match is None:
            raise UserError(
                "no such vocabulary", where=name, hint="As bpe-4000, unigram-4000, bpe-4000-laws or bpe-4000-wide."
            )
        return cls("bpe" if match[1] == "bpe" else "unigram", int(match[2]), match[3] == "-laws", match[3] == "-wide")

    def learnt(self, texts: Texts) -> Tokenizer:
        text = texts.laws if self.of_laws else texts.train
        return learn(text, kind=self.kind, size=self.size, byte_fallback=True)


@dataclass(frozen=True)
class Texts:
    """train, held_out: sentences of films' reviews.  laws: as many characters of other text.  tasks: by name."""

    train: Sequence[str]
    held_out: Sequence[str]
    laws: Sequence[str]
    tasks: dict[str, Labelled]

    @classmethod
    def read(cls) -> Texts:
        """Raises UserError where SUBGRAFT_DATA does not lead to them."""
        folder = require_data_folder("labels and en-fr/laws")
        reviews = folder / "labels" / "movie-reviews"
        train = _sentences(reviews / "train.jsonl.gz")
        return cls(
            train,
            evenly_spaced(_sentences(reviews / "dev.jsonl.gz"), HELD_OUT),
            _as_long(lines(folder / "en-fr" / "laws" / "train.en.gz"), sum(map(len, train))),
            {name: _labelled(folder / "labels" / name) for name in TASKS},
        )


def _sentences(path: Path) -> list[str]:
    """Of texts that are one line each."""
    texts = (record["text"] for record in _records(path))
    sentences = (sentence.strip() for text in texts for sentence in re.split(r"(?<= [.!?]) ", text))
    return [sentence for sentence in sentences if 2 < len(sentence) <= LONGEST]


def _as_long(text: Iterable[str], characters: int) -> list[str]:
    """The first lines of a text, in small letters, as reviews are."""
    taken, chosen = 0, list[str]()
    for line in text:
        if taken >= characters:
            break
        if len(line) <= LONGEST:
            chosen.append(line.lower())
            taken += len(line)
    return chosen


def _labelled(folder: Path) -> Labelled:
    def read(split: str) -> list[tuple[str, str]]:
        return [(record["text"][:LONGEST], record["label"]) for record in _records(folder / f"{split}.jsonl.gz")]

    return Labelled(read("train"), [*read("dev"), *read("test")])


def _records(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        yield from map(json.loads, handle)


class Sentences:
    """What a causal model learns from: sentences by themselves, in batches of so many characters."""

    def __init__(self, text: Sequence[str], tokenizer: Tokenizer) -> None:
        self._lines = Lines(text, tokenizer, tokenizer.special["eos"], MAX_LENGTH, "characters")
        if not self._lines.whole.all():
            raise UserError(f"a sentence has more than {MAX_LENGTH} tokens under this vocabulary")

    @property
    def lengths(self) -> np.ndarray:
        return self._lines.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self._lines.batch(indices, epoch)


def run(name: str, tokenizer: Tokenizer, seed: int, texts: Texts, updates: int, width: int, batch: int) -> Run:
    """A vocabulary's model, pretrained and finetuned."""
    body = GPT2Settings(
        d_model=width, attention_heads=HEADS, ffn_dim=4 * width, layers=LAYERS, max_positions=MAX_LENGTH, dropout=0.0
    )
    model = family_named("gpt2").build(body, tokenizer, tokenizer, seed)
    set_bos_token(model, tokenizer.special["eos"])
    settings = PretrainSettings(
        epochs=1000,
        batch_size=batch,
        batch_unit="characters",
        max_length=MAX_LENGTH,
        learning_rate=3e-3,
        warmup_steps=max(1, updates // 10),
        label_smoothing=0.0,
    )
    held_out = CausalScores(Bundle(model, tokenizer, tokenizer), texts.held_out, tokenizer.special["eos"], settings)
    points = trained(
        StackLoss(model),
        Sentences(texts.train, tokenizer),
        settings,
        seed=seed,
        evaluate=lambda: held_out()["bits_per_character"],
        marks=sorted({updates * part // 8 for part in range(1, 9)}),
        unit="updates",
    )
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    scores: dict[str, Scores] = {}
    for task, labelled in texts.tasks.items():
        model.load_state_dict(weights)
        scores[task] = classified(model, tokenizer, labelled, seed, batch, MAX_LENGTH)
    of_text = capacity(tokenizer, texts.train)
    return Run(
        vocabulary=name,
        seed=seed,
        size=len(tokenizer),
        parameters=model.num_parameters(),
        alp=of_text.alp,
        held_out_alp=capacity(tokenizer, texts.held_out).alp,
        unigram_bits=bits_per_character(-of_text.alp * of_text.sentences, of_text.characters),
        characters_per_token=of_text.characters_per_token,
        byte_share=of_text.byte_tokens / of_text.tokens,
        curve=[asdict(point) for point in points],
        scores={task: asdict(score) for task, score in scores.items()},
    )


def study(out: Path, names: Sequence[str], seeds: Sequence[int], updates: int, width: int, batch: int) -> list[Run]:
    """All runs, those that DIR/runs.jsonl has already among them. Raises UserError."""
    vocabularies = {name: Vocabulary.named(name) for name in names}
    texts = Texts.read()
    runs = FinishedRuns(out / "runs.jsonl", Run)
    tokenizers: dict[str, Tokenizer] = {}
    for seed in seeds:
        for name, vocabulary in vocabularies.items():
            if any((each.vocabulary, each.seed) == (name, seed) for each in runs.done):
                continue
            tokenizers.setdefault(name, vocabulary.learnt(texts))
            of_model = 2 * width if vocabulary.wide else width
            runs.add(run(name, tokenizers[name], seed, texts, updates, of_model, batch))
    return runs.done


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    options.add_argument("--vocabularies", nargs="+", default=VOCABULARIES, metavar="KIND-SIZE")
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options.add_argument("--updates", type=int, default=1200)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--batch", type=int, default=4000, help="characters")
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args(arguments)
    torch.set_num_threads(args.threads)

    def answer() -> None:
        runs = study(args.out, args.vocabularies, args.seeds, args.updates, args.width, args.batch)
        print(write(runs, args.out), end="")

    return exit_code("alp_and_quality", answer)


if __name__ == "__main__":
    sys.exit(main())
