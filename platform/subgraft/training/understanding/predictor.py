"""Predictions for inputs without labels, by a finetuned model alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Languages
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.modeling.inference.ctranslate2_encoder import load_exported_head
from subgraft.modeling.tokenizers import languages_at
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.whole_examples import BATCH_TOKENS
from subgraft.training.setup import device
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.registry import task_of_model

# The number of inputs whose outputs are in memory at a time.
CHUNK_SIZE = 1024


@dataclass(frozen=True)
class Prediction:
    """A prediction for an input.

    text: one line.  facts: the prediction with its scores, as JSON.  truncated: whether the input was truncated.
    """

    text: str
    facts: dict[str, Any]
    truncated: bool = False


class Predictor:
    """Makes predictions with a finetuned model.

    Attributes:
        name: The name of the task in configurations.
        task: The task with the labels of the model.
        form: The form of its inputs.
    """

    def __init__(self, bundle: Bundle, languages: Languages | None = None, where: str = "the model") -> None:
        """Raises UserError for a model without a head that predicts labels, and if its vocabulary needs languages."""
        model_task = task_of_model(bundle.model, where)
        self.name, self.task, self.form = model_task.name, model_task.task, model_task.form
        self._encoder = TextEncoder.of(bundle, languages)
        self._model = bundle.model
        self._model.to(device())  # type: ignore[arg-type]

    @classmethod
    def load(cls, directory: Path, languages: Languages | None = None) -> Predictor:
        """The model of a directory, which may be an export. Raises UserError as the constructor does."""
        if is_exported(directory):
            exported = ExportedModel.open(directory)
            return cls(load_exported_head(exported), exported.languages_for(languages), str(directory))
        return cls(Bundle.load(directory), languages_at(directory, languages), str(directory))

    @property
    def labels(self) -> Sequence[str]:
        """The labels of the task; empty if it does not choose among labels."""
        return self.task.labels

    @property
    def tokenizer(self) -> Tokenizer:
        return self._encoder.tokenizer

    def predict(
        self, inputs: Iterable[Any], batch_tokens: int = BATCH_TOKENS, progress: Callable[[int], None] | None = None
    ) -> Iterator[Prediction]:
        """A prediction for each input of the form `form`, in order. progress: called with the number of done inputs."""
        remaining, done = iter(inputs), 0
        while chunk := list(islice(remaining, CHUNK_SIZE)):
            split = self.task.read(chunk, self._encoder)
            padding = self._encoder.padding
            outputs = head_outputs(self._model, self.task, split, padding, batch_tokens=batch_tokens).by_example
            texts = self.task.in_words(self.task.predicted(outputs, split), split)
            for text, facts, is_truncated in zip(
                texts, self.task.facts(outputs, split), split.are_truncated.tolist(), strict=True
            ):
                yield Prediction(text, facts, is_truncated)
            done += len(chunk)
            if progress is not None:
                progress(done)

    def statistics(
        self, corpus: Corpus, split: str, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, FloatArray], int]:
        """For each metric of the task, the statistics of each example of a split, and how many are truncated."""
        read, encoder = self.task.split(corpus, split, self._encoder), self._encoder
        outputs = head_outputs(self._model, self.task, read, encoder.padding, progress=progress).by_example
        return self.task.statistics(self.task.predictions(outputs, read)), read.truncated
