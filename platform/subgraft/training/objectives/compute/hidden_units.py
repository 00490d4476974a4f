"""Knowledge masking: hides complete words, phrases and entities, in stages (Sun et al., 2019, section 3.2).

ERNIE's stages are basic units (words, or characters of Chinese), then phrases, then entities. ERNIE 2 mixes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from subgraft.base.errors import UserError
from subgraft.data.text.batches import evenly_spaced_places
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import Sequences
from subgraft.data.text.fields import texts
from subgraft.data.text.units import ALL_BITS, Collocations, Span, entities, unit_bits, unit_sizes
from subgraft.subwords.vocabulary.spelling import chunks
from subgraft.training.objectives.compute.annotated_text import values_of_lines
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.masked import MaskedSettings, UnitName, UnitStage

# The maximum number of lines, evenly spaced, in which collocations are counted.
_MAX_COUNTED_LINES = 200_000


def hidden_units(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Select the units to hide, at least one, so that about `count` tokens are hidden.

    Each unit is hidden with probability count / n, whatever its size. The units are laid around a circle of n tokens in
    a random order. Each has a point at the same random fraction of its length, and an arc of `count` tokens hides the
    units whose points lie in it. So if all units have one token, exactly `count` of them are hidden. If the arc
    contains no point (short sentences with large units), the unit at its start is hidden.

    Args:
        sizes: the number of tokens of each unit [u].
        count: the number of tokens to hide, of all n tokens.
        rng: the random generator.
    """
    order = rng.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    begin, fraction = rng.random(2)
    points = ends - sizes[order] * (1.0 - fraction)
    arc = begin * ends[-1]
    selected = order[(points - arc) % ends[-1] < count]
    return selected if len(selected) else order[[np.searchsorted(ends, arc, side="right")]]


class Units:
    """The units that are hidden, which depend on the step by the configured stages."""

    def __init__(self, stages: Sequence[UnitStage]) -> None:
        self._stages, self._stage = stages, stages[0]

    def begin(self, step: int) -> None:
        """Switch to the stage of the update that follows `step` others."""
        self._stage = next(stage for stage in reversed(self._stages) if stage.step <= step)

    def sizes(self, bits: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """The number of tokens of each unit of a text. The kind of unit is sampled for each example."""
        names, shares = zip(*self._stage.frequencies.items(), strict=True)
        unit: UnitName = names[int(rng.choice(len(names), p=shares))]
        return unit_sizes(bits, unit)


# Packed sentences store the bits of a token above its id, so that both stay together.
_SHIFT = 24


def without_bits(tokens: Sequence[int], separator: int) -> tuple[list[int], list[int]]:
    """The ids of packed tokens, and the bits of those that are not separators. A unit ends before each separator."""
    packed = np.array(tokens, dtype=np.int64)
    ids, bits = packed & ((1 << _SHIFT) - 1), packed >> _SHIFT
    separates = ids == separator
    bits[1:][separates[:-1]] = ALL_BITS
    return ids.tolist(), bits[~separates].tolist()


def sentences_with_bits(settings: MaskedSettings, request: ObjectiveInputs) -> list[Sequences]:
    """The tokens of the sentences of each training text of the corpus, with the bits of `unit_bits` above their ids.

    Raises UserError if a configured unit occurs nowhere, or the corpus lacks a configured field of spans.
    """
    units = {name for stage in settings.units for name in stage.frequencies}
    names = [field.name for field in texts(request.corpus.fields) if request.corpus.size("train", field.name)]
    lines_of = [text.lines for text in request.documents()] if settings.needs_documents else None
    all_lines: Sequence[Sequence[str]] = lines_of or [lines for _, lines in request.texts()]
    counts, packed = dict.fromkeys(units & {"phrase", "entity"}, 0), list[Sequences]()
    for name, lines in zip(names, all_lines, strict=True):
        spans_of_lines, sentences = _spans_of_lines(settings, units, request.corpus, name, lines), list[list[int]]()
        for chunk in chunks(lines):
            encoded = request.bundle.encoder.encode_with_ends(chunk)
            for line, (ids, ends), spans in zip(chunk, encoded, spans_of_lines):  # noqa: B905 (chunk after chunk)
                for unit in counts:
                    counts[unit] += len(spans[unit])
                bits = unit_bits(ends, line, spans.get("phrase", ()), spans.get("entity", ()))
                sentences.append([token | (token_bits << _SHIFT) for token, token_bits in zip(ids, bits, strict=True)])
        packed.append(Sequences.of(sentences))
    _require_units(counts, settings, request)
    return packed


def _spans_of_lines(
    settings: MaskedSettings, units: Iterable[UnitName], corpus: Corpus, name: str, lines: Sequence[str]
) -> Iterator[dict[UnitName, Sequence[Span]]]:
    """The phrases and entities of each line of a text, if they are among `units`: annotated, or detected by rule."""
    by_unit: dict[UnitName, Iterator[Sequence[Span]]] = {}
    if "phrase" in units:
        if settings.phrases is None:
            sample: Iterable[str] = lines
            if len(lines) > _MAX_COUNTED_LINES:
                sample = (lines[int(place)] for place in evenly_spaced_places(len(lines), _MAX_COUNTED_LINES))
            collocations = Collocations.of(sample)
            by_unit["phrase"] = (collocations.phrases(line) for line in lines)
        else:
            by_unit["phrase"] = _annotated_spans(corpus, settings.phrases, name, lines)
    if "entity" in units:
        if settings.entities is None:
            by_unit["entity"] = (entities(line) for line in lines)
        else:
            by_unit["entity"] = _annotated_spans(corpus, settings.entities, name, lines)
    for spans in zip(*by_unit.values(), strict=True) if by_unit else ((),) * len(lines):
        yield dict(zip(by_unit, spans, strict=True))


def _annotated_spans(corpus: Corpus, field: str, text: str, lines: Sequence[str]) -> Iterator[Sequence[Span]]:
    """The spans of a field for each line of a text; none if the field annotates another text."""
    declared = corpus.field(field)
    if declared.kind != "spans":
        hint = "Declare it: `records: {fields: {NAME: {kind: spans, of: TEXT}}}`."
        raise UserError(
            f"'{field}' is a field of kind {declared.kind}, not spans", where=str(corpus.directory), hint=hint
        )
    if declared.of != text:
        return iter([()] * len(lines))
    return ([(start, end) for start, end, _ in spans] for spans in values_of_lines(corpus, "train", field, lines))


def _require_units(counts: dict[UnitName, int], settings: MaskedSettings, request: ObjectiveInputs) -> None:
    """Raises UserError if the training text has no unit of a kind that is to be hidden."""
    annotated = {"phrase": settings.phrases, "entity": settings.entities}
    for unit, count in counts.items():
        if count == 0:
            field = annotated[unit]
            plural = {"phrase": "phrases", "entity": "entities"}[unit]
            reason = f"the field '{field}' has no span" if field else _RULES[unit]
            raise UserError(
                f"there are no {plural} to hide: {reason}",
                where=str(request.corpus.directory),
                hint=f"Name a field of kind spans (upstream.objectives: {plural}), or leave {unit} out of units.",
            )


_RULES = {"phrase": "no two words are a collocation", "entity": "no word within a sentence is capitalised"}
