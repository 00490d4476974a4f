"""Bits of the test references, by how often the new tokens in them occur in the training text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.token_classes import (
    CLASSES,
    NEW_CLASSES,
    NOT_SPELLED,
    SEEN,
    Bits,
    BitsByClass,
    Likelihood,
    token_classes,
)
from subgraft.evaluation.reporting.document import Block, Figure, Section
from subgraft.evaluation.reporting.drawing import BASELINE_COLOUR, Label, label_ends, new_figure, png
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, percent
from subgraft.evaluation.reporting.plots import system_looks
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Planned, Sources, Subject
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context

LIKELIHOOD_FILE = "likelihood.json"
_HEIGHT = 4.0  # inches


class LikelihoodStage(Stage):
    """Bits per character of the first `test_sentences` test references, of all if None, by how rare their tokens are.

    Inputs: `model`, `corpus`, the task's `vocabulary`, and `upstream`, the model whose decoder lacks new tokens.
    """

    stage_name: ClassVar[str] = "likelihood"
    revision: ClassVar[int] = 1
    accelerated: ClassVar[bool] = True

    languages: Languages
    test_sentences: int | None = None

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.modeling.bundle import Bundle
        from subgraft.modeling.tokenizers import load_tokenizers
        from subgraft.training.objectives.compute.translation import reference_nats
        from subgraft.training.setup import device

        bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
        upstream = load_tokenizers(inputs["upstream"])["decoder"]
        downstream = Tokenizer.load(inputs["vocabulary"])
        classes = token_classes(downstream, upstream, corpus.lines("train", "target"))
        same = bundle.decoder.fingerprint == downstream.fingerprint
        own_classes = classes if same else token_classes(bundle.decoder, upstream, corpus.lines("train", "target"))
        pairs = list(corpus.pairs("test"))[: self.test_sentences]
        bundle.model.to(device())  # type: ignore[arg-type]
        nats = dict(sorted(reference_nats(bundle, pairs, self.languages, context.progress)))
        if not nats:
            raise UserError(f"no test reference fits into the {bundle.max_positions} tokens that the model takes")
        sums = BitsByClass((bundle.decoder, own_classes), upstream, (downstream, classes))
        sums.add([pairs[index][1] for index in nats], list(nats.values()))
        likelihood = sums.result(left_out=len(pairs) - len(nats))
        record = json.dumps(likelihood.to_json(), ensure_ascii=False, indent=1)
        (out / LIKELIHOOD_FILE).write_text(record + "\n", encoding="utf-8")
        return {
            "test_bits_per_character": likelihood.bits_per_character,
            "references_left_out": likelihood.left_out,
            "artifacts": [LIKELIHOOD_FILE],
        }


def _steps(subject: Subject) -> dict[str, Planned]:
    """Of single sentences; for every system, split by the new tokens of the same downstream vocabulary."""
    settings, finetune = subject.experiment.evaluation, subject.finetune
    if not settings.by_token_count or settings.documents:
        return {}
    stage = LikelihoodStage(languages=subject.experiment.languages, test_sentences=settings.test_sentences)
    inputs = {
        "model": finetune,
        "corpus": subject.downstream_corpus,
        "vocabulary": subject.vocabulary,
        "upstream": subject.upstream,
    }
    name = finetune.name.replace("finetune", "likelihood of", 1)
    return {"likelihood": Planned(stage, name, inputs, finetune.labels)}


def _read(sources: Sources) -> Likelihood | None:
    if "likelihood" not in sources.steps:
        return None
    return Likelihood.from_json(json.loads((sources.steps["likelihood"] / LIKELIHOOD_FILE).read_text(encoding="utf-8")))


def mean_likelihood(by_seed: Sequence[Likelihood]) -> Likelihood:
    """Bits as means over seeds, which all read the same references."""
    return replace(
        by_seed[0],
        bits=fmean(likelihood.bits for likelihood in by_seed),
        end_bits=fmean(likelihood.end_bits for likelihood in by_seed),
        tokens=_mean_class_bits([likelihood.tokens for likelihood in by_seed]),
        stretches=_mean_class_bits([likelihood.stretches for likelihood in by_seed]),
    )


def _mean_class_bits(by_seed: Sequence[Mapping[str, Bits]]) -> dict[str, Bits]:
    return {
        name: replace(bits, bits=fmean(by_class[name].bits for by_class in by_seed))
        for name, bits in by_seed[0].items()
    }


def rare_tokens(data: ReportData) -> list[Section]:
    """Bits per character by class, and bits of each system's own tokens; nothing where they were not measured."""
    systems = {name: mean_likelihood(by_seed) for name, by_seed in data.measured(Likelihood).items()}
    if not systems:
        return []
    blocks: list[Block] = [_stretch_table(systems)]
    if data.baseline in systems and len(systems) > 1:
        caption = (
            "Bits per character less the baseline's, by the rarest new token of a stretch; below the line is better. "
            "Means over seeds."
        )
        blocks.append(Figure("rare_tokens", _plot(data, systems), caption))
    if any(map(_new_classes, systems.values())):
        blocks.append(_token_table(systems))
    return [Section("Rare tokens", tuple(blocks))]


def _stretch_table(systems: Mapping[str, Likelihood]) -> Table:
    classes = [name for name in CLASSES if any(name in likelihood.stretches for likelihood in systems.values())]
    first = next(iter(systems.values()))
    shares = [percent(_stretches(first, name).characters / first.characters) for name in classes]
    numbers = [count(_stretches(first, name).units) for name in classes]
    headings = ["system", "all text", *map(_heading, classes)]
    body: list[list[str | Text]] = [
        [text(Span("share of the characters", "faint")), "100.0 %", *shares],
        [
            text(Span("stretches", "faint")),
            count(sum(likelihood.units for likelihood in first.stretches.values())),
            *numbers,
        ],
    ]
    for name, likelihood in systems.items():
        rates = [fixed(_rate(likelihood, each), 3) for each in classes]
        body.append([name, fixed(likelihood.bits_per_character, 3), *rates])
    notes = [
        "A stretch is a smallest piece of a reference at whose ends the upstream and the downstream segmentation meet. "
        "It is classed by its rarest new token: how often the task's training text has it. Seen: it has no new token.",
        "All text counts the ends of sentences as well.",
    ]
    if NOT_SPELLED in classes:
        notes.append(
            "Not spelled: one of the two vocabularies has an unknown token there, which is easy to predict but "
            "carries no information. It also makes the bits of all text too low for a system with that vocabulary."
        )
    left_out = [f"{name} {count(likelihood.left_out)}" for name, likelihood in systems.items() if likelihood.left_out]
    if left_out:
        notes.append(f"References longer than the model takes, which are left out: {', '.join(left_out)}.")
    caption = "Bits per character of the test references, by how often new tokens occur in the training text"
    return table(headings, body, caption, *notes)


def _heading(name: str) -> str:
    return name if name in (SEEN, NOT_SPELLED) else f"{name}\ntimes"


def _rate(likelihood: Likelihood, name: str) -> float | None:
    """Bits per character of a class of stretches."""
    stretches = _stretches(likelihood, name)
    return stretches.bits / stretches.characters if stretches.characters else None


def _stretches(likelihood: Likelihood, name: str) -> Bits:
    return likelihood.stretches.get(name, Bits(0, 0, 0, 0.0))


def _token_table(systems: Mapping[str, Likelihood]) -> Table:
    with_new_tokens = {name: likelihood for name, likelihood in systems.items() if _new_classes(likelihood)}
    classes = [
        name
        for name in (SEEN, *NEW_CLASSES)
        if any(name in likelihood.tokens for likelihood in with_new_tokens.values())
    ]
    body = [
        [system, *(_token_cell(likelihood, name) for name in classes)] for system, likelihood in with_new_tokens.items()
    ]
    note = (
        "Each system's own tokens that the upstream vocabulary lacks, by how often the training text has them under "
        "the system's vocabulary; below, how many there are in the references. Systems of one vocabulary compare."
    )
    return table(["system", *map(_heading, classes)], body, "Bits per token, of systems with new tokens", note)


def _token_cell(likelihood: Likelihood, name: str) -> str | Text:
    tokens = likelihood.tokens.get(name)
    if tokens is None:
        return MISSING
    return text(fixed(tokens.bits / tokens.units), "\n", Span(f"{count(tokens.units)} tokens", "faint"))


def _new_classes(likelihood: Likelihood) -> list[str]:
    return [name for name in NEW_CLASSES if name in likelihood.tokens]


def _plot(data: ReportData, systems: Mapping[str, Likelihood]) -> bytes:
    baseline = systems[data.baseline or ""]
    classes = [name for name in (SEEN, *NEW_CLASSES) if name in baseline.stretches]
    ends = [Label(len(classes) - 1, 0.0, data.baseline or "", BASELINE_COLOUR, True)]
    looks = system_looks(data)
    with new_figure(10, _HEIGHT) as figure:
        panel = figure.subplots()
        panel.axhline(0, color=BASELINE_COLOUR, linewidth=1.2, linestyle="--", zorder=1)
        for system, likelihood in systems.items():
            if system == data.baseline:
                continue
            rates = [(_rate(likelihood, name) or 0.0) - (_rate(baseline, name) or 0.0) for name in classes]
            look = looks[system]
            panel.plot(range(len(classes)), rates, zorder=2 + look.stands_out, **look.line)
            if look.stands_out:
                ends.append(Label(len(classes) - 1, rates[-1], system, look.colour))
        panel.margins(x=0.04)
        label_ends(panel, ends, 0.75 * _HEIGHT)
        panel.set_xticks(range(len(classes)), classes)
        panel.set(title="Bits per character less the baseline's", xlabel="occurrences of the rarest new token")
        return png(figure)


LIKELIHOOD = MeasurementSpec(
    stage=LikelihoodStage,
    parts=("likelihood",),
    steps=_steps,
    read=_read,
    after_learning={"translation": rare_tokens},
)
