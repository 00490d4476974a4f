"""The section of a report on bits of the test references, by how often the new tokens in them occur in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from subgraft.evaluation.metrics.token_classes import CLASSES, NEW_CLASSES, NOT_SPELLED, SEEN, Bits, Likelihood
from subgraft.evaluation.reporting.document import Block, Figure, Section
from subgraft.evaluation.reporting.drawing import BASELINE_COLOUR, Label, label_ends, new_figure, png
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, percent
from subgraft.evaluation.reporting.plots import system_looks
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 4.0  # inches


def rare_tokens(data: ReportData) -> list[Section]:
    """Bits per character by class, and bits of each system's own tokens; nothing where they were not measured."""
    systems = [system for system in summarise(data) if system.likelihood is not None]
    if not systems:
        return []
    blocks: list[Block] = [_stretch_table(systems)]
    if data.baseline in {system.name for system in systems} and len(systems) > 1:
        caption = (
            "Bits per character less the baseline's, by the rarest new token of a stretch; below the line is better. "
            "Means over seeds."
        )
        blocks.append(Figure("rare_tokens", _plot(data, systems), caption))
    if any(_new_classes(system) for system in systems):
        blocks.append(_token_table(systems))
    return [Section("Rare tokens", tuple(blocks))]


def _stretch_table(systems: Sequence[SystemSummary]) -> Table:
    likelihoods = [_likelihood(system) for system in systems]
    classes = [name for name in CLASSES if any(name in likelihood.stretches for likelihood in likelihoods)]
    first = likelihoods[0]
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
    body += [[system.name, *_stretch_cells(_likelihood(system), classes)] for system in systems]
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
    notes += _left_out(systems)
    caption = "Bits per character of the test references, by how often new tokens occur in the training text"
    return table(headings, body, caption, *notes)


def _left_out(systems: Sequence[SystemSummary]) -> list[str]:
    cut = {system.name: _likelihood(system).left_out for system in systems if _likelihood(system).left_out}
    systems_cut = ", ".join(f"{name} {count(number)}" for name, number in cut.items())
    return [f"References longer than the model takes, which are left out: {systems_cut}."] if cut else []


def _heading(name: str) -> str:
    return name if name in (SEEN, NOT_SPELLED) else f"{name}\ntimes"


def _stretch_cells(likelihood: Likelihood, classes: Sequence[str]) -> list[str]:
    rates = [_rate(likelihood, name) for name in classes]
    return [fixed(likelihood.bits_per_character, 3), *(fixed(rate, 3) for rate in rates)]


def _rate(likelihood: Likelihood, name: str) -> float | None:
    """Bits per character of a class of stretches."""
    stretches = _stretches(likelihood, name)
    return stretches.bits / stretches.characters if stretches.characters else None


def _stretches(likelihood: Likelihood, name: str) -> Bits:
    return likelihood.stretches.get(name, Bits(0, 0, 0, 0.0))


def _token_table(systems: Sequence[SystemSummary]) -> Table:
    with_new_tokens = [system for system in systems if _new_classes(system)]
    classes = [
        name for name in (SEEN, *NEW_CLASSES) if any(name in _likelihood(system).tokens for system in with_new_tokens)
    ]
    body = [[system.name, *(_token_cell(_likelihood(system), name) for name in classes)] for system in with_new_tokens]
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


def _new_classes(system: SystemSummary) -> list[str]:
    return [name for name in NEW_CLASSES if name in _likelihood(system).tokens]


def _likelihood(system: SystemSummary) -> Likelihood:
    assert system.likelihood is not None
    return system.likelihood


def _plot(data: ReportData, systems: Sequence[SystemSummary]) -> bytes:
    baseline = next(_likelihood(system) for system in systems if system.name == data.baseline)
    classes = [name for name in (SEEN, *NEW_CLASSES) if name in baseline.stretches]
    with new_figure(10, _HEIGHT) as figure:
        panel = figure.subplots()
        panel.axhline(0, color=BASELINE_COLOUR, linewidth=1.2, linestyle="--", zorder=1)
        _draw(panel, data, systems, baseline, classes)
        panel.set_xticks(range(len(classes)), classes)
        panel.set(title="Bits per character less the baseline's", xlabel="occurrences of the rarest new token")
        return png(figure)


def _draw(
    panel: Axes, data: ReportData, systems: Sequence[SystemSummary], baseline: Likelihood, classes: Sequence[str]
) -> None:
    ends = [Label(len(classes) - 1, 0.0, data.baseline or "", BASELINE_COLOUR, True)]
    looks = system_looks(data)
    for system in systems:
        if system.name == data.baseline:
            continue
        rates = [(_rate(_likelihood(system), name) or 0.0) - (_rate(baseline, name) or 0.0) for name in classes]
        look = looks[system.name]
        panel.plot(range(len(classes)), rates, zorder=2 + look.stands_out, **look.line)
        if look.stands_out:
            ends.append(Label(len(classes) - 1, rates[-1], system.name, look.colour))
    panel.margins(x=0.04)
    label_ends(panel, ends, 0.75 * _HEIGHT)
