"""Predictions for inputs without labels, by a finetuned model alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from subgraft.config.corpora import Languages
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.modeling.inference.ctranslate2_encoder import load_exported_head
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.training.objectives.whole_examples import BATCH_TOKENS
from subgraft.training.setup import device
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.registry import task_of_model

# Inputs whose outputs are in memory at once.
AT_ONCE = 1024


@dataclass(frozen=True)
class Prediction:
    """A prediction for an input.

    text: one line.  facts: the same with scores, in JSON.  cut: whether the input lacks its end, being too long.
    """

    text: str
    facts: dict[str, Any]
    cut: bool = False


class Predictor:
    """A model with a head, which predicts what it was finetuned for.

    Attributes:
        name: The task, as configurations name it.
        task: The task with the labels of the model.
        form: Of its inputs.
    """

    def __init__(self, bundle: Bundle, languages: Languages | None = None, where: str = "the model") -> None:
        """Raises UserError for a model without such a head, and where its vocabulary needs languages."""
        of_model = task_of_model(bundle.model, where)
        self.name, self.task, self.form = of_model.name, of_model.task, of_model.form
        self._encoder = TextEncoder.of(bundle, languages)
        self._model = bundle.model
        self._model.to(device())  # type: ignore[arg-type]

    @classmethod
    def load(cls, directory: Path, languages: Languages | None = None) -> Predictor:
        """The model of a directory, which may be an export. Raises UserError as the constructor does."""
        if is_exported(directory):
            exported = ExportedModel.open(directory)
            return cls(load_exported_head(exported), languages or exported.settings.languages, str(directory))
        return cls(Bundle.load(directory), languages or checkpoint_languages(directory), str(directory))

    @property
    def labels(self) -> Sequence[str]:
        """The labels that it chooses from, if it does."""
        return self.task.labels

    def predict(
        self, inputs: Iterable[Any], batch_tokens: int = BATCH_TOKENS, progress: Callable[[int], None] | None = None
    ) -> Iterator[Prediction]:
        """A prediction for each input of `form`, in order. progress: called with the inputs done."""
        rest, done = iter(inputs), 0
        while chunk := list(islice(rest, AT_ONCE)):
            yield from self._of(chunk, batch_tokens)
            done += len(chunk)
            if progress is not None:
                progress(done)

    def statistics(
        self, corpus: Corpus, split: str, progress: Callable[[int, int, str], None] | None = None
    ) -> dict[str, FloatArray]:
        """By metric of the task, the counts of each labelled example of a split."""
        read, encoder = self.task.split(corpus, split, self._encoder), self._encoder
        outputs = head_outputs(self._model, self.task, read, encoder.padding, progress=progress).by_example
        return self.task.statistics(self.task.predictions(outputs, read))

    def _of(self, inputs: Sequence[Any], batch_tokens: int) -> Iterator[Prediction]:
        split = self.task.read(inputs, self._encoder)
        encoder = self._encoder
        outputs = head_outputs(self._model, self.task, split, encoder.padding, batch_tokens=batch_tokens).by_example
        texts = self.task.in_words(self.task.predicted(outputs, split), split)
        for text, facts, is_cut in zip(texts, self.task.facts(outputs, split), split.are_cut.tolist(), strict=True):
            yield Prediction(text, facts, is_cut)
