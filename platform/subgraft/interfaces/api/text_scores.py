"""Bits of a text under a language model, and the difference between two models on the same text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.data.text.dataset_files import TEST
from subgraft.data.text.text_files import TextFiles
from subgraft.evaluation.metrics.sentence_statistics import ratio
from subgraft.evaluation.metrics.significance import Interval, compare, estimate
from subgraft.interfaces.api.arguments import text_files_of
from subgraft.interfaces.api.model import Model, load
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.registry import CONTINUING_KINDS

if TYPE_CHECKING:
    from subgraft.modeling.bundle import Bundle


@dataclass(frozen=True)
class TextBits:
    """Bits of a text's lines under a model, each by itself, its end included.

    Attributes:
        bits_per_character, bits_per_byte: Of all lines.
        interval: The 95 % interval of bits per character, by bootstrap over lines.
        lines: Their number.
        windowed: How many of them are longer than the model's context, and read in windows that overlap by half.
        tokens_per_line: With the model's vocabulary.
    """

    bits_per_character: float
    bits_per_byte: float
    interval: Interval
    lines: int
    windowed: int
    tokens_per_line: float


@dataclass(frozen=True)
class TextComparison:
    """Two models on the same lines.

    Attributes:
        model, baseline: Each model's bits.
        difference: Bits per character of the model minus those of the baseline.
        interval: Its 95 % interval, by paired bootstrap over lines.
        p_value: Two-sided.
    """

    model: TextBits
    baseline: TextBits
    difference: float
    interval: Interval
    p_value: float


def measure_text(
    model: Model | Path | str,
    text: Sequence[Path | str],
    *,
    field: str = "text",
    progress: ProgressCallback | None = None,
) -> TextBits:
    """Bits per character and byte of a text under a language model.

    Args:
        model: One in memory, a directory, a hub id, or models:/NAME@ALIAS.
        text: Files or folders of lines, JSON lines, CSV, TSV or Parquet.
        field: The column of the text in JSON lines and tables.
        progress: Called with the lines done, their total, and a word for them.

    Raises:
        UserError: The model does not continue text.
    """
    lines = _lines(text, field)
    bundle = _language_model(model)
    return _measured(bundle, lines, progress)[0]


def compare_on_text(
    model: Model | Path | str,
    baseline: Model | Path | str,
    text: Sequence[Path | str],
    *,
    field: str = "text",
    progress: ProgressCallback | None = None,
) -> TextComparison:
    """Compare two language models on a text, also with different vocabularies. Arguments as of `measure_text`."""
    lines = _lines(text, field)
    bundles = [_language_model(each) for each in (model, baseline)]
    (measured, bits), (other, other_bits) = (_measured(bundle, lines, progress) for bundle in bundles)
    compared = compare(ratio, bits[None], other_bits[None])
    return TextComparison(measured, other, compared.difference, compared.interval, compared.p_value)


def _lines(text: Sequence[Path | str], field: str) -> list[str]:
    files = TextFiles(text_files_of("text", text, TEST), field, split_long=False)
    lines = list(chain.from_iterable(files.documents()))
    if not lines:
        raise UserError("there is no text", where=", ".join(map(str, files.paths)))
    return lines


def _language_model(model: Model | Path | str) -> Bundle:
    from subgraft.modeling.families import family_of

    bundle = (model if isinstance(model, Model) else load(model)).bundle
    if not CONTINUING_KINDS & family_of(bundle.model).objectives:
        hint = "Give --sources and --references of a translator, or --labels of a classifier."
        raise UserError("this model does not continue text", where=str(model), hint=hint)
    return bundle


def _measured(
    bundle: Bundle, lines: Sequence[str], progress: ProgressCallback | None
) -> tuple[TextBits, NDArray[np.float64]]:
    """The bits of a text, and each line's bits and characters [n, 2]."""
    from subgraft.training.objectives.compute.causal import windowed_line_bits
    from subgraft.training.setup import device

    special = bundle.decoder.special
    # Texts begin with the token with which the model begins to write.
    begins = bundle.model.config.bos_token_id == special.get("bos", -1) or "eos" not in special
    settings = CausalSettings(packed=False, separator="bos" if begins else "eos")
    bundle.model.to(device())  # type: ignore[arg-type]
    statistics, windowed = windowed_line_bits(bundle, lines, settings, progress)
    bits, characters = statistics.sum(axis=0).tolist()
    result = TextBits(
        bits / characters,
        bits / sum(len(line.encode()) for line in lines),
        estimate(ratio, statistics[None]).interval,
        len(lines),
        windowed,
        sum(map(len, bundle.decoder.encode_batch(lines))) / len(lines),
    )
    return result, statistics
