"""Models with an allocated vocabulary: bits per character of small denoising models, compared with a joint one's.

    subgraft vocab allocate CONFIG [key=value …]
    SUBGRAFT_DATA=… python studies/allocated_models.py CONFIG [key=value …] --out DIR

Reads the corpora and the vocabularies that the allocation has left in the store, and trains a model with each
vocabulary and seed. A model is an mBART with embeddings of half its width; a line is denoised, from itself with spans
of words left out. These are drawn in the text, before any vocabulary cuts it: by white space, and character by
character where Chinese and Japanese have none. So both vocabularies have the same lines in the same batches of as many
characters, the same words are missing, as many updates are made, and only the tokens differ. In training, the targets
of a batch compete with some tokens drawn from all (`pretrain.target_sampling`). Scored is -log2 p of the whole line
under the whole vocabulary, what ends it included, given the line with its noise, which is the same for all models.

Languages are those that the Universal Declaration of Human Rights is there in; of each class of training lines the
first, the middle and the last ones by code. They are drawn by p^α, with an α of its own. Held out are lines of each
language's test split, evenly spaced, and of the Declaration. Lines of more than so many characters are left out
everywhere.

Writes models.jsonl and table.md to DIR; models that are there are not trained again.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from declaration import declaration, made, vocabulary
from finished_runs import FinishedRuns, exit_code
from seeds import band
from subgraft.config.corpora import Languages
from subgraft.config.loading import load
from subgraft.config.models import MBartSettings
from subgraft.config.training import PretrainSettings, UniformTargets
from subgraft.contrib.allocation.session import ALLOCATED, JOINT, AllocationPipeline
from subgraft.contrib.allocation.settings import Allocation
from subgraft.data.text.batches import BatchPlan, evenly_spaced
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.languages import repeated, repeated_places
from subgraft.data.text.noise import infill
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import Concatenation
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.target_sampling import SampledLoss, target_sampling
from subgraft.training.objectives.compute.translation import token_nats
from subgraft.training.objectives.denoising import DenoisingSettings
from timed_training import plain_trainer

HELD_OUT = ("held out", "Declaration")
# Classes of training lines begin at so many.
CLASSES = (0, 1_000, 3_000, 10_000)
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"\s*(?:[{_ALONE}]|[^\s{_ALONE}]+)|\s+")
_GAP = -1


@dataclass(frozen=True)
class Design:
    """What is the same for all models.

    characters: lines with more are left out.  batch: in characters.  lines: scored, of each language and text.
    alpha: of p^α, by which languages are drawn.
    """

    steps: int
    batch: int = 4_000
    width: int = 128
    layers: int = 2
    drawn: int = 2_000
    learning_rate: float = 3e-3
    alpha: float = 0.3
    characters: int = 300
    lines: int = 40

    @property
    def model(self) -> MBartSettings:
        # A character takes four tokens at most, which spell its bytes.
        return MBartSettings(
            d_model=self.width,
            embedding_width=self.width // 2,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            attention_heads=4,
            ffn_dim=4 * self.width,
            dropout=0.0,
            max_positions=4 * self.characters + 8,
        )

    @property
    def training(self) -> PretrainSettings:
        return PretrainSettings(
            max_steps=self.steps,
            batch_size=self.batch,
            batch_unit="characters",
            learning_rate=self.learning_rate,
            schedule="linear",
            warmup_steps=max(1, self.steps // 10),
            label_smoothing=0.0,
            precision="fp32",
            target_sampling=UniformTargets(drawn=self.drawn),
        )


@dataclass(frozen=True)
class Texts:
    """What models are trained and scored on. train: by language.  held_out: by text and language."""

    train: Mapping[str, Sequence[str]]
    held_out: Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class Trained:
    """A model, as it is kept. nats: by text and language, of all lines."""

    total: int
    vocabulary: str
    seed: int
    steps: int
    parameters: int
    seconds: float
    train_tokens: int
    nats: dict[str, dict[str, float]]


class NoisedLines:
    """Examples: lines of a language, each from itself with spans of words left out, whatever the vocabulary.

    Noise is a function of (seed, epoch, index). Lengths are in characters.
    """

    def __init__(self, lines: Sequence[str], language: str, bundle: Bundle, seed: int) -> None:
        self._lines = lines
        self._tokenizer = bundle.decoder
        self._form = bundle.sequence_format(Languages(source=language, target=language))
        self._seed = seed
        self._settings = DenoisingSettings()
        self.lengths: np.ndarray = np.array([len(line) + 1 for line in lines])

    def __len__(self) -> int:
        return len(self._lines)

    def example(self, index: int, epoch: int) -> Example:
        line = self._lines[index]
        pieces = noised(line, self._settings, np.random.default_rng([self._seed, epoch, index]))
        target, *read = self._tokenizer.encode_batch([line, *(piece for piece in pieces if piece is not None)])
        encoded, mask = iter(read), [self._tokenizer.special["mask"]]
        source = [token for piece in pieces for token in (mask if piece is None else next(encoded))]
        return Example.of(source, target, self._form)


def noised(line: str, settings: DenoisingSettings, generator: np.random.Generator) -> list[str | None]:
    """The parts of a line that are not masked, and None for each span that is missing."""
    words = _WORD.findall(line)
    pieces: list[str | None] = []
    places = [[place] for place in range(len(words))]
    for place in infill(places, _GAP, settings.noises["infilling"], settings.poisson_lambda, generator):
        if place == _GAP:
            pieces.append(None)
        elif pieces and pieces[-1] is not None:
            pieces[-1] += words[place]
        else:
            pieces.append(words[place])
    return [None if piece is None else piece.strip() for piece in pieces]


class CountedData(Seq2SeqData):
    """Batches that are counted as they are made. targets: the tokens that were to be predicted."""

    targets = 0

    def batch(self, indices: np.ndarray, epoch: int) -> Seq2SeqBatch:
        made_of = super().batch(indices, epoch)
        self.targets += made_of.counts["loss"]
        return made_of


def chosen(lines: Mapping[str, int], per_class: int) -> dict[str, list[str]]:
    """Of each class of training lines so many languages: the first, the last and evenly spaced ones, by code."""
    texts: dict[str, list[str]] = {}
    for least, most in zip(CLASSES, (*CLASSES[1:], None), strict=True):
        of_class = sorted(code for code, count in lines.items() if least <= count and (most is None or count < most))
        places = np.unique(np.linspace(0, len(of_class) - 1, min(per_class, len(of_class))).round().astype(int))
        if of_class:
            name = f"{least:,} lines or more" if most is None else f"below {most:,} lines"
            texts[name] = [of_class[place] for place in places]
    return texts


def texts(corpora: Mapping[str, Corpus], of_declaration: Mapping[str, Sequence[str]], design: Design) -> Texts:
    """Of these languages, with those lines that are not too long; languages come as often as they are drawn."""

    def short(lines: Sequence[str]) -> list[str]:
        return [line for line in lines if len(line) <= design.characters]

    train = {code: short(list(_text(corpus, "train"))) for code, corpus in corpora.items()}
    counts = repeated({code: len(lines) for code, lines in train.items()}, design.alpha)
    held_out = {
        code: evenly_spaced(short(list(_text(corpus, "test"))), design.lines) for code, corpus in corpora.items()
    }
    chosen = {code: evenly_spaced(short(of_declaration[code]), design.lines) for code in corpora}
    return Texts(
        {code: [lines[at] for at in repeated_places(len(lines), counts[code])] for code, lines in train.items()},
        dict(zip(HELD_OUT, (held_out, chosen), strict=True)),
    )


def _text(corpus: Corpus, split: str) -> Iterator[str]:
    return corpus.lines(split, corpus.text_of("encoder"))


def train(tokenizer: Tokenizer, texts: Texts, design: Design, seed: int) -> tuple[Bundle, int]:
    """A model, and how many target tokens it was trained on."""
    family = family_named(design.model.model_type)
    bundle = Bundle(family.build(design.model, tokenizer, tokenizer, seed), tokenizer, tokenizer)
    parts = [NoisedLines(lines, language, bundle, seed) for language, lines in texts.train.items()]
    data, settings = CountedData(Concatenation(parts), *bundle.padding), design.training
    assert settings.target_sampling is not None
    module = SampledLoss(Seq2SeqLoss(bundle.model))
    with tempfile.TemporaryDirectory() as place:
        sampling = target_sampling(settings.target_sampling, bundle.model, seed)
        plain_trainer(module, data, settings, Path(place), seed=seed, callback=sampling).run()
    return bundle, data.targets


@torch.inference_mode()
def score(bundle: Bundle, lines: Sequence[str], language: str, batch: int) -> float:
    """-ln p of all the lines given their noised selves; the noise is the same whatever the model."""
    bundle.model.eval()  # type: ignore[no-untyped-call]
    examples = NoisedLines(lines, language, bundle, seed=0)
    data = Seq2SeqData(examples, *bundle.padding)
    batches = BatchPlan(examples.lengths, batch, seed=0).epoch(0)
    return sum(float(token_nats(bundle.model, data.batch(indices, 0)).double().sum()) for indices in batches)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--per-class", type=int, default=3, help="languages of each class of training lines")
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args(arguments)
    torch.set_num_threads(args.threads)
    return exit_code("allocated_models", lambda: study(load(args.config, Allocation, args.overrides), args))


def study(settings: Allocation, args: argparse.Namespace) -> None:
    """Train and score what is not there yet. Raises UserError where the allocation has not been run."""
    pipeline, store = AllocationPipeline(settings, args.config.absolute().parent), Store(default_home())
    spoken = declaration(list(settings.sources), args.config.absolute().parent)
    opened = {code: Corpus.open(made(store, pipeline.corpora[code])) for code in spoken}
    of_class = chosen({code: corpus.size("train") for code, corpus in opened.items()}, args.per_class)
    design = Design(args.steps)
    used = {code: opened[code] for codes in of_class.values() for code in codes}
    used_texts = texts(used, spoken, design)
    models = FinishedRuns(args.out / "models.jsonl", Trained)
    for total, seed, name in product(settings.totals, args.seeds, (ALLOCATED, JOINT)):
        if any((each.total, each.seed, each.vocabulary) == (total, seed, name) for each in models.done):
            continue
        tokenizer = vocabulary(pipeline, store, name, total)
        models.add(_trained(total, name, seed, tokenizer, used_texts, design))
        (args.out / "table.md").write_text(report(models.done, of_class, used_texts), encoding="utf-8")
    print(report(models.done, of_class, used_texts), end="")


def _trained(total: int, name: str, seed: int, tokenizer: Tokenizer, texts: Texts, design: Design) -> Trained:
    began = time.process_time()
    bundle, tokens = train(tokenizer, texts, design, seed)
    seconds = time.process_time() - began
    nats = {
        text: {code: score(bundle, lines, code, design.batch) for code, lines in of_text.items()}
        for text, of_text in texts.held_out.items()
    }
    trained = Trained(total, name, seed, design.steps, bundle.model.num_parameters(), seconds, tokens, nats)
    bits = {text: fmean(_bits(trained, texts, text).values()) for text in HELD_OUT}
    print(f"{total} {name} seed {seed}: {seconds:.0f} s, bits {bits}", file=sys.stderr, flush=True)
    return trained


def _bits(model: Trained, texts: Texts, text: str) -> dict[str, float]:
    """Bits per character, by language."""
    return {
        code: bits_per_character(nats, count_characters(texts.held_out[text][code]))
        for code, nats in model.nats[text].items()
    }


def report(done: Sequence[Trained], of_class: Mapping[str, Sequence[str]], texts: Texts) -> str:
    """Tables of each total and text: bits per character by class, and the allocated vocabulary's less the joint."""
    lines = [f"{name}: {', '.join(codes)}  " for name, codes in of_class.items()]
    for total, text in product(dict.fromkeys(each.total for each in done), HELD_OUT):
        bits = {
            name: {
                each.seed: _bits(each, texts, text) for each in done if (each.total, each.vocabulary) == (total, name)
            }
            for name in (ALLOCATED, JOINT)
        }
        seeds = sorted(bits[ALLOCATED].keys() & bits[JOINT].keys())
        if seeds:
            lines += ["", f"{total:,} places, {text}, seeds {', '.join(map(str, seeds))}", ""]
            lines += _table(bits, seeds, {**of_class, "all": [code for codes in of_class.values() for code in codes]})
    return "\n".join(lines) + "\n"


def _table(
    bits: Mapping[str, Mapping[int, Mapping[str, float]]], seeds: Sequence[int], of_class: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield f"| | {ALLOCATED} | {JOINT} | difference by seed | mean, 95 % over seeds | better in |"
    yield "|---|---|---|---|---|---|"
    for name, codes in of_class.items():
        mean = {of: {seed: fmean(bits[of][seed][code] for code in codes) for seed in seeds} for of in bits}
        differences = [mean[ALLOCATED][seed] - mean[JOINT][seed] for seed in seeds]
        better = sum(
            fmean(bits[ALLOCATED][seed][code] for seed in seeds) < fmean(bits[JOINT][seed][code] for seed in seeds)
            for code in codes
        )
        difference, half = band(differences)
        yield (
            f"| {name} | {fmean(mean[ALLOCATED].values()):.3f} | {fmean(mean[JOINT].values()):.3f} | "
            f"{', '.join(f'{each:+.3f}' for each in differences)} | {difference:+.3f} ± {half:.3f} | "
            f"{better} of {len(codes)} |"
        )


if __name__ == "__main__":
    sys.exit(main())
