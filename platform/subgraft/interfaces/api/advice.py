"""The effect of other vocabularies on a text, before any training, as `subgraft advise` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from subgraft.config.settings_base import SideName
from subgraft.interfaces.api.arguments import one_of
from subgraft.interfaces.api.shown import as_html, as_text

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from subgraft.experiments.fit.sentence_cost import SentenceCost
    from subgraft.experiments.fit.vocabulary_preview import VocabularyPreview
    from subgraft.interfaces.api.model import Model
    from subgraft.interfaces.api.vocabularies import Text

# The maximum number of lines used, sampled from the whole text.
MAX_LINES = 100_000


@dataclass(frozen=True, repr=False)
class VocabularyAdvice:
    """The cost of the text with other vocabularies; `print` shows all of it.

    Attributes:
        preview: Sizes and tokens of each vocabulary, subwords worth adding, and unused ones.
        cost: Seconds and memory of a sentence; None for a vocabulary that only reads.
        continues: Whether the model has no encoder.
    """

    preview: VocabularyPreview
    cost: SentenceCost | None
    continues: bool

    @property
    def verdict(self) -> str:
        """Whether another vocabulary is worth a training, in a sentence."""
        from subgraft.experiments.fit.preview_page import verdict

        return verdict(self.preview, self.continues)

    def table(self) -> RenderableType:
        """All of it, as the command prints it."""
        from rich.console import Group

        from subgraft.experiments.fit.preview_page import render

        return Group(self.verdict, render(self.preview, self.cost, self.continues))

    def frame(self) -> pd.DataFrame:
        """A row for each vocabulary, the model's own first."""
        import pandas as pd

        return pd.DataFrame([self._row(index) for index in range(len(self.preview.options))]).set_index("vocabulary")

    def _row(self, index: int) -> dict[str, Any]:
        option = self.preview.options[index]
        tokens = option.spelling.tokens_per_sentence
        row: dict[str, Any] = {"vocabulary": option.way, "subwords": option.size, "change": option.changed}
        row |= {"tokens per line": tokens, "unknown share": option.spelling.unknown_share}
        row["lost lines"] = option.lost.share
        if self.cost is not None:
            row["seconds per line"] = self.cost.seconds(tokens, option.size)
            row["bytes per line"] = self.cost.bytes(tokens, option.size)
            row["bytes of a table"] = self.cost.table_bytes(option.size)
        return row

    def plot(self) -> Figure:
        """Tokens of a line over the vocabulary's size."""
        from subgraft.experiments.fit.preview_page import plot

        return plot(self.preview)

    def __str__(self) -> str:
        return as_text(self.table())

    def __repr__(self) -> str:
        return f"<VocabularyAdvice: {len(self.preview.options)} vocabularies for {self.preview.lines:,} lines>"

    def _repr_html_(self) -> str:
        return as_html(self.table())


def advise(
    model: Model | Path | str, text: Text, *, side: SideName = "decoder", field: str = "text"
) -> VocabularyAdvice:
    """Tokens, seconds and memory of a text with the model's vocabulary and with trimmed, extended and replaced ones.

    Args:
        model: One in memory, a directory, a hub id, or models:/NAME@ALIAS.
        text: Lines (`str`) and files or folders of text (`Path`), or a table.
        side: Whether the model reads the text (`encoder`, if it has one) or writes it.
        field: The column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: The text has too few lines.
    """
    one_of("side", side, get_args(SideName))
    # These take seconds to load.
    from subgraft.experiments.fit.sentence_cost import measure_cost
    from subgraft.experiments.fit.vocabulary_preview import preview_vocabularies
    from subgraft.interfaces.api.model import Model, load
    from subgraft.interfaces.api.vocabularies import text_lines
    from subgraft.subwords.vocabulary.learn import sample

    bundle = (model if isinstance(model, Model) else load(model)).bundle
    present_side: SideName = side if side in bundle.tokenizers else "decoder"
    lines = [line for line in sample(text_lines(text, field), MAX_LINES, seed=1) if line.strip()]
    preview = preview_vocabularies(bundle.tokenizers[present_side], lines)
    cost = measure_cost(bundle, present_side) if present_side == "decoder" else None
    return VocabularyAdvice(preview, cost, continues="encoder" not in bundle.tokenizers)
