"""Translation: examples of parallel text, dev scores, and the objective, in one direction or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.data.text.encoded import encode
from subgraft.data.text.languages import LanguageDraws
from subgraft.data.text.segments import sides
from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT, bits_per_character, count_characters
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.families import SequenceFormat
from subgraft.modeling.inference.search import DEFAULT_BATCH_SIZE
from subgraft.modeling.inference.translate import Translator, translator_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.dev_scores import dev_engine
from subgraft.training.objectives.compute.distributed import texts_by_worker
from subgraft.training.objectives.compute.interface import Concatenation, ObjectiveInputs, TaskText, selected_examples
from subgraft.training.objectives.compute.seq2seq import (
    Example,
    Seq2SeqBatch,
    Seq2SeqData,
    Seq2SeqLoss,
    Seq2SeqObjective,
    token_loss,
    top_states,
)
from subgraft.training.objectives.compute.subword_regularization import Sampling, Subwords
from subgraft.training.objectives.compute.whole_examples import BATCH_TOKENS, WholeExamples, label_nats
from subgraft.training.objectives.objective import AnyObjective

# For dev scores, greedy output ends at this many bytes per byte of its source.
DEV_LENGTH_RATIO = 2.5


class Translation:
    """Examples of a parallel corpus in the sequence format of the model's family, truncated to max_length tokens.

    With `sampling`, text is segmented again in every epoch. Lengths, and so batches, are those of the plain
    segmentation.

    truncated: the number of truncated pairs, which depends on the vocabulary, so records should include it.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        source: Tokenizer,
        target: Tokenizer,
        sequence_format: SequenceFormat,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
        sampling: Sampling | None = None,
    ) -> None:
        room = max_length - sequence_format.around
        texts = sides(pairs)
        sources, targets = encode(texts[0], source), encode(texts[1], target)
        self.truncated = int((sources.sequences.longer(targets.sequences) > room).sum())
        plain = sources.sequences.truncate(room), targets.sequences.truncate(room)
        self._sources, self._targets = (Subwords(sequences) for sequences in plain)
        if sampling is not None:
            self._sources = sampling.of("encoder", texts[0], source, plain[0], room)
            self._targets = sampling.of("decoder", texts[1], target, plain[1], room)
        self._plain, self._characters = plain, (sources.characters, targets.characters)
        self._batch_unit, self._sequence_format = batch_unit, sequence_format

    def __len__(self) -> int:
        return len(self._plain[1])

    @property
    def lengths(self) -> np.ndarray:
        """The cost of each pair [n], computed on access, because batch plans may store it in a file."""
        sources, targets = self._plain
        by_characters = self._batch_unit == "characters"
        lengths: np.ndarray = np.maximum(*self._characters) if by_characters else sources.longer(targets)
        lengths += 1
        return lengths

    @property
    def whole_targets(self) -> np.ndarray:
        """Which pairs have an untruncated target [n]."""
        return self._plain[1].whole

    def example(self, index: int, epoch: int) -> Example:
        source, target = self._sources.at(index, epoch), self._targets.at(index, epoch)
        return Example.of(source, target, self._sequence_format)


class ReferenceScores:
    """Bits per character of dev references, and BLEU and chrF of outputs.

    Bits per character exclude truncated references, whose number is reported; BLEU and chrF include all segments.
    """

    def __init__(
        self,
        bundle: Bundle,
        data: Seq2SeqData,
        whole: np.ndarray,
        references: Sequence[Sequence[str]],
        training: TrainingSettings,
        language: str,
    ) -> None:
        """whole: which references are not truncated [n].  references: the sentences of each reference."""
        self._model, self._limit, self._precision = bundle.model, bundle.max_positions, training.precision
        self._whole = WholeExamples(data, whole, max(training.batch_size, self._limit))
        self._references, self._language = references, language

    def require_any_whole(self) -> None:
        """Raises UserError if no reference fits."""
        if not len(self._whole.indices):
            raise UserError(
                f"no dev reference fits into the {self._limit} tokens that the model takes",
                hint="Give a model of more positions (model.max_positions), or dev references of fewer tokens.",
            )

    def __call__(self, outputs: Callable[[], Sequence[str]]) -> dict[str, float]:
        """outputs: generates a text for each reference, on one line."""
        whole, device = self._whole, next(self._model.parameters()).device
        characters = sum(count_characters(self._references[index]) for index in whole.indices.tolist())
        nats = whole.total(partial(token_loss, self._model), device, self._precision)
        left_out = len(self._references) - len(whole.indices)
        references = list(map(" ".join, self._references))
        scores = corpus_scores(outputs(), references, self._language, ["BLEU", "chrF"])
        return {
            "bits_per_character": bits_per_character(nats, characters),
            "bleu": scores["BLEU"].value,
            "chrf": scores["chrF"].value,
            **({LEFT_OUT: float(left_out)} if left_out else {}),
        }


class DevScores:
    """Scores on the first dev sentences: bits per character, and BLEU and chrF of greedy output.

    Bits per character are the negative log-likelihood of references and their ends, divided by their characters. They
    leave out references that exceed the model's limit, whose number is reported; BLEU and chrF are of all sentences.
    Raises UserError if no reference fits.
    """

    def __init__(
        self,
        bundle: Bundle,
        pairs: Sequence[tuple[str, str]],
        languages: Languages,
        settings: TrainingSettings,
    ) -> None:
        self._model = bundle.model
        self._pairs = list(pairs[: settings.dev_sentences])
        form = bundle.sequence_format(languages)
        examples = Translation(self._pairs, bundle.encoder, bundle.decoder, form, bundle.max_positions)
        data, references = Seq2SeqData(examples, *bundle.padding), [[target] for _, target in self._pairs]
        target = languages.target
        self._scores = ReferenceScores(bundle, data, examples.whole_targets, references, settings, target)
        if self._pairs:
            self._scores.require_any_whole()
        self._sources = [source for source, _ in self._pairs]
        self._settings, self._bundle, self._languages = settings, bundle, languages
        self._checked = False
        self._translate = translator_of(bundle, languages, beam=1, max_length_ratio=DEV_LENGTH_RATIO)

    def __call__(self) -> dict[str, float]:
        return self._scores(self._outputs)

    def _outputs(self) -> list[str]:
        def lengths() -> list[int]:
            tokens = self._bundle.encoder.encode_batch(self._sources)
            return [min(len(of_source), self._bundle.max_positions) for of_source in tokens]

        return texts_by_worker(self._sources, lengths, DEFAULT_BATCH_SIZE, self._translator(), self._model)

    def _translator(self) -> Translator:
        """A translator with the current weights; CTranslate2 copies them and is compared with the model once."""
        if dev_engine(self._settings, self._model) == "transformers":
            return self._translate
        check, self._checked = not self._checked, True
        return fast_translator(self._bundle, self._languages, beam=1, max_length_ratio=DEV_LENGTH_RATIO, check=check)


class TranslationObjective(Seq2SeqObjective):
    """Translation of the corpus's pairs; the best dev BLEU selects the weights."""

    select: str | None = "bleu"

    def __init__(self, request: ObjectiveInputs) -> None:
        bundle, training = request.bundle, request.training
        sampling = None if request.sampling is None else Sampling(request.sampling, request.seed)
        examples = Translation(
            request.corpus.text_pairs("train"),
            bundle.encoder,
            bundle.decoder,
            bundle.sequence_format(request.languages),
            training.max_length,
            training.batch_unit,
            sampling,
        )
        super().__init__(bundle, examples)
        self._request = request

    def dev_scores(self) -> Callable[[], dict[str, float]]:
        request = self._request
        return DevScores(request.bundle, list(request.corpus.pairs("dev")), request.languages, request.training)


class TaskPairs(Seq2SeqData):
    """Pairs for finetuning: those of the task, or synthetic ones."""

    def __init__(self, request: ObjectiveInputs, training: FinetuneSettings, *, limited: bool = True) -> None:
        """limited: whether the limit `training.max_train_examples` applies to these pairs."""
        bundle, pairs = request.bundle, request.corpus.text_pairs("train")
        indices = selected_examples(len(pairs), training, request.seed) if limited else None
        if indices is not None:
            pairs = pairs.take(indices)
        form, limit = bundle.sequence_format(request.languages), training.max_length
        examples = Translation(pairs, bundle.encoder, bundle.decoder, form, limit, training.batch_unit)
        super().__init__(examples, *bundle.padding)
        self._request, self._training = request, training
        self.examples, self.padding = examples, bundle.padding
        self.truncated = examples.truncated
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": pairs.source, "decoder": pairs.target}

    def loss(self, bundle: Bundle) -> nn.Module:
        return Seq2SeqLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> DevScores:
        request = self._request
        return DevScores(bundle, list(request.corpus.pairs("dev")), request.languages, self._training)


def reference_nats(
    bundle: Bundle,
    pairs: Sequence[tuple[str, str]],
    languages: Languages,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each pair with an untruncated reference, and the nats of its tokens and its end, ordered by length.

    Long sources are truncated, as in generation.
    """
    limit = bundle.max_positions
    examples = Translation(pairs, bundle.encoder, bundle.decoder, bundle.sequence_format(languages), limit)
    data = Seq2SeqData(examples, *bundle.padding)
    whole = WholeExamples(data, examples.whole_targets, max(BATCH_TOKENS, limit))
    return whole.nats(bundle.model, partial(token_nats, bundle.model), progress)


def token_nats(model: PreTrainedModel, batch: Seq2SeqBatch) -> Tensor:
    """The negative log-likelihood of each label that is not IGNORED, in nats and in fp32 [N]."""
    return label_nats(model, top_states(model, batch), batch.labels)


class Directions(Seq2SeqData):
    """The pairs of several directions. Batches mix directions, because every example has its own language codes.

    With an exponent α, pairs of a direction occur with the probability p^α / Σ p^α, where p is its share of all pairs
    (`LanguageDraws`). Without one, an epoch is one pass over all pairs.

    sizes: the number of pairs of each direction.
    """

    def __init__(self, parts: Mapping[str, TaskPairs], exponent: float | None, seed: int) -> None:
        self._parts, self.sizes = parts, {name: len(part.lengths) for name, part in parts.items()}
        if empty := [name for name, size in self.sizes.items() if not size]:
            raise UserError("it has no training pairs after cleaning", where=f"directions: {empty[0]}")
        draws = None if exponent is None else LanguageDraws(list(parts), list(self.sizes.values()), exponent, seed)
        first = next(iter(parts.values()))
        super().__init__(Concatenation([part.examples for part in parts.values()], draws), *first.padding)

    @property
    def truncated(self) -> int:
        """The number of truncated pairs."""
        return sum(part.truncated for part in self._parts.values())

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        """The lines of all directions that each side of the model reads or writes."""
        sides: tuple[SideName, ...] = ("encoder", "decoder")
        return {side: chain.from_iterable(part.texts[side] for part in self._parts.values()) for side in sides}

    def loss(self, bundle: Bundle) -> nn.Module:
        """The loss, which is the same for all directions."""
        return next(iter(self._parts.values())).loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        """The mean scores of all directions, which select weights, and those of each direction as NAME_score."""
        scorers = {name: part.dev_scores(bundle) for name, part in self._parts.items()}

        def scores() -> dict[str, float]:
            by_direction = {name: scorer() for name, scorer in scorers.items()}
            left_out = sum(direction_scores.pop(LEFT_OUT, 0.0) for direction_scores in by_direction.values())
            names = next(iter(by_direction.values()))
            means = {
                score: fmean(direction_scores[score] for direction_scores in by_direction.values()) for score in names
            }
            scores_by_direction = {
                f"{name}_{score}": value
                for name, direction_scores in by_direction.items()
                for score, value in direction_scores.items()
            }
            return {**means, **scores_by_direction, **({LEFT_OUT: left_out} if left_out else {})}

        return scores


def directions_text(
    settings: AnyObjective, requests: Mapping[str, ObjectiveInputs], training: FinetuneSettings, exponent: float | None
) -> TaskText:
    """The text of a task with several directions, by name; for one direction, the text of that direction."""
    parts = {name: settings.finetuning(request, training) for name, request in requests.items()}
    if len(parts) == 1:
        return next(iter(parts.values()))
    pairs = {name: part for name, part in parts.items() if isinstance(part, TaskPairs)}
    return Directions(pairs, exponent, next(iter(requests.values())).seed)
