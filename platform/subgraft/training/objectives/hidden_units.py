"""Knowledge masking: words, phrases and entities are hidden as a whole, by stages (Sun et al., 2019, section 3.2).

ERNIE's stages are basic units (words; of Chinese, characters), then phrases, then entities; ERNIE 2 mixes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.ernie_objectives import UnitName, UnitStage
from subgraft.config.objectives import MaskedSettings
from subgraft.data.text.batches import evenly_spaced_places
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import Sequences
from subgraft.data.text.fields import texts
from subgraft.data.text.segments import Text
from subgraft.data.text.units import Collocations, Span, entities, unit_bits, unit_sizes
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.training.objectives.objective import Request

# The lines, evenly spaced, in which collocations are counted.
_COUNTED = 200_000


def hidden_units(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The units to hide, at least one, so that about `count` of the tokens are hidden.

    Each unit is hidden with probability count / n, whatever its size: the units, in a random order, are laid around a
    circle of n tokens, and an arc of `count` tokens hides those whose point, at the same random fraction of each, it
    contains. So units of one token are exactly `count`. Only where the arc contains no point, in short sentences of
    large units, the unit at its beginning is hidden.

    Args:
        sizes: tokens of each unit [u].
        count: tokens to hide, of n in all.
        rng: the source of randomness.
    """
    order = rng.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    begin, fraction = rng.random(2)
    points = ends - sizes[order] * (1.0 - fraction)
    arc = begin * ends[-1]
    chosen = order[(points - arc) % ends[-1] < count]
    return chosen if len(chosen) else order[[np.searchsorted(ends, arc, side="right")]]


class Units:
    """The units of the sentences of a training, and what is hidden at each step.

    Args:
        bits: the levels of which each token begins a unit, as `unit_bits` gives them.
        stages: the configured stages.
    """

    def __init__(self, bits: Sequences, stages: Sequence[UnitStage]) -> None:
        self._bits, self._stages = bits, stages
        self._stage = stages[0]

    def begin(self, step: int) -> None:
        """Use the stage of the update after `step` others."""
        self._stage = next(stage for stage in reversed(self._stages) if stage.step <= step)

    def cut(self, max_length: int) -> Units:
        return Units(self._bits.cut(max_length), self._stages)

    def sizes(self, index: int, rng: np.random.Generator) -> np.ndarray:
        """The number of tokens of each unit of a sentence, of a kind drawn for this example."""
        names, shares = zip(*self._stage.frequencies.items(), strict=True)
        drawn: UnitName = names[int(rng.choice(len(names), p=shares))]
        return unit_sizes(self._bits[index], drawn)


def units_of(settings: MaskedSettings, request: Request, split: str = "train") -> Units | None:
    """The units of all lines of the request's texts, in their order; None where tokens are hidden.

    Raises UserError if a unit that is to be hidden occurs nowhere, or the corpus has no such field of spans.
    """
    if not settings.units:
        return None
    wanted = {name for stage in settings.units for name in stage.frequencies}
    names = [field.name for field in texts(request.corpus.fields) if request.corpus.size(split, field.name)]
    counts, bits = dict.fromkeys(wanted & {"phrase", "entity"}, 0), list[list[int]]()
    for name, (_, lines) in zip(names, request.texts(split), strict=True):
        of_line = _spans_of_lines(settings, wanted, request.corpus, split, name, lines)
        for chunk in chunks(lines):
            encoded = request.bundle.encoder.encode_with_ends(chunk)
            for line, (_, ends), spans in zip(chunk, encoded, of_line):  # noqa: B905 (chunk after chunk)
                for unit in counts:
                    counts[unit] += len(spans[unit])
                bits.append(unit_bits(ends, line, spans.get("phrase", ()), spans.get("entity", ())))
    _require_units(counts, settings, request)
    return Units(Sequences.of(bits), settings.units)


def _spans_of_lines(
    settings: MaskedSettings, wanted: Iterable[UnitName], corpus: Corpus, split: str, name: str, lines: Sequence[str]
) -> Iterator[dict[UnitName, Sequence[Span]]]:
    """The phrases and entities of each line of a text, as far as they are wanted: annotated, or by rule."""
    by_unit: dict[UnitName, Iterator[Sequence[Span]]] = {}
    if "phrase" in wanted:
        if settings.phrases is None:
            counted = lines if len(lines) <= _COUNTED else _evenly(lines)
            collocations = Collocations.of(counted)
            by_unit["phrase"] = (collocations.phrases(line) for line in lines)
        else:
            by_unit["phrase"] = _annotated(corpus, split, settings.phrases, name, lines)
    if "entity" in wanted:
        if settings.entities is None:
            by_unit["entity"] = (entities(line) for line in lines)
        else:
            by_unit["entity"] = _annotated(corpus, split, settings.entities, name, lines)
    for spans in zip(*by_unit.values(), strict=True) if by_unit else ((),) * len(lines):
        yield dict(zip(by_unit, spans, strict=True))


def _evenly(lines: Sequence[str]) -> Iterator[str]:
    return (lines[int(place)] for place in evenly_spaced_places(len(lines), _COUNTED))


def _annotated(corpus: Corpus, split: str, field: str, of: str, lines: Sequence[str]) -> Iterator[Sequence[Span]]:
    """The spans of a field for each line of a text, which may be chosen lines of its file; none for another text."""
    declared = corpus.field(field)
    if declared.kind != "spans":
        hint = "Declare it: `records: {fields: {NAME: {kind: spans, of: TEXT}}}`."
        raise UserError(
            f"'{field}' is a field of kind {declared.kind}, not spans", where=str(corpus.directory), hint=hint
        )
    if declared.of != of:
        return iter([()] * len(lines))
    whole = ([(start, end) for start, end, _ in spans] for spans in corpus.annotations(split, field))
    chosen = lines.chosen if isinstance(lines, Text) else None
    if chosen is None:
        return whole
    by_line = list(whole)
    return (by_line[int(place)] for place in chosen)


def _require_units(counts: dict[UnitName, int], settings: MaskedSettings, request: Request) -> None:
    """Raises UserError if the training text has no unit of a kind that is to be hidden."""
    annotated = {"phrase": settings.phrases, "entity": settings.entities}
    for unit, count in counts.items():
        if count == 0:
            field = annotated[unit]
            plural = {"phrase": "phrases", "entity": "entities"}[unit]
            how = f"the field '{field}' has no span" if field else _RULES[unit]
            raise UserError(
                f"there are no {plural} to hide: {how}",
                where=str(request.corpus.directory),
                hint=f"Name a field of kind spans (upstream.objectives: {plural}), or leave {unit} out of units.",
            )


_RULES = {"phrase": "no two words are a collocation", "entity": "no word within a sentence is capitalised"}
