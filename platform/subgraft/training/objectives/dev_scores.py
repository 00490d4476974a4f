"""Dev scores of a translation model during training."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import DecodingEngine
from subgraft.config.training import FinetuneSettings, ModelTrainingSettings, TrainingSettings
from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT, bits_per_character, count_characters
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD, root_median_squared
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.families import family_of
from subgraft.modeling.inference.search import AT_ONCE
from subgraft.modeling.inference.translate import Translator
from subgraft.training.objectives.distributed import texts_by_worker
from subgraft.training.objectives.parallel_text import Translation
from subgraft.training.objectives.seq2seq import Seq2SeqData, token_loss
from subgraft.training.objectives.whole_examples import WholeExamples

# Greedy output of more than this many times the bytes of its source is cut while training is watched.
DEV_LENGTH_RATIO = 2.5


# During the training of larger models, memory does not suffice for CTranslate2's copy of the weights.
LARGEST_COPIED = 250_000_000


def describe_dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> dict[str, str]:
    """The decoding engine of dev scores for a record, if the settings do not name it."""
    named = isinstance(settings, ModelTrainingSettings) and settings.dev_engine != "auto"
    return {} if named else {"dev_engine": dev_engine(settings, model)}


def dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> DecodingEngine:
    """The engine that translates for dev scores; `auto` selects the faster one if the model supports it."""
    named = settings.dev_engine if isinstance(settings, ModelTrainingSettings) else "transformers"
    if named != "auto":
        return named
    adapted = isinstance(settings, FinetuneSettings) and settings.train == "adapters"
    parameters = list(model.parameters())
    in_parts = any(hasattr(parameter, "ds_id") for parameter in parameters)
    if adapted or in_parts or torch.cuda.is_available() or find_spec("ctranslate2") is None:
        return "transformers"
    small = sum(parameter.numel() for parameter in parameters) <= LARGEST_COPIED
    return "ctranslate2" if small and family_of(model).runs_in_ctranslate2(model.config.to_dict()) else "transformers"


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
        self._language = languages.target
        form = bundle.sequence_format(languages)
        limit = bundle.max_positions
        examples = Translation(self._pairs, bundle.encoder, bundle.decoder, form, limit)
        data = Seq2SeqData(examples, *bundle.padding)
        self._whole = WholeExamples(data, examples.whole_targets, max(settings.batch_size, limit))
        if self._pairs and not len(self._whole.places):
            raise UserError(
                f"no dev reference fits into the {limit} tokens that the model takes",
                hint="Give a model of more positions (model.max_positions), or dev references of fewer tokens.",
            )
        self._sources = [source for source, _ in self._pairs]
        self._settings, self._bundle, self._languages = settings, bundle, languages
        self._checked = False
        self._translate = Translator(
            bundle.model,
            bundle.encoder,
            bundle.decoder,
            form,
            beam=1,
            max_length_ratio=DEV_LENGTH_RATIO,
            max_positions=limit,
        )

    def __call__(self) -> dict[str, float]:
        references = [target for _, target in self._pairs]
        whole, device = self._whole, next(self._model.parameters()).device
        characters = count_characters(references[place] for place in whole.places)
        nats = whole.total(partial(token_loss, self._model), device, self._settings.precision)
        left_out = len(references) - len(whole.places)
        hypotheses = texts_by_worker(self._sources, self._source_lengths, AT_ONCE, self._translator(), self._model)
        scores = corpus_scores(hypotheses, references, self._language, ["BLEU", "chrF"])
        omitted = {LEFT_OUT: float(left_out)} if left_out else {}
        return {
            "bits_per_character": bits_per_character(nats, characters),
            "bleu": scores["BLEU"].value,
            "chrf": scores["chrF"].value,
            **omitted,
        }

    def _source_lengths(self) -> list[int]:
        tokens = self._bundle.encoder.encode_batch(self._sources)
        return [min(len(of_source), self._bundle.max_positions) for of_source in tokens]

    def _translator(self) -> Translator:
        """A translator with the current weights; CTranslate2 copies them and is compared with the model once."""
        if dev_engine(self._settings, self._model) == "transformers":
            return self._translate
        check, self._checked = not self._checked, True
        return fast_translator(self._bundle, self._languages, beam=1, max_length_ratio=DEV_LENGTH_RATIO, check=check)


# How far a finetuning has moved a pretrained language model, by the kind of its weights: a dev score like others.
#
# Parts of a layer, as transformers names them in models of one stack. What attends to a source is new, and is neither.
KINDS: Mapping[str, re.Pattern[str]] = {
    FEED_FORWARD: re.compile(r"\.mlp\."),
    "drift_attention": re.compile(r"\.(?:attn|self_attn)\."),
}


class Drift:
    """Drift from the model's current weights, of which it keeps a copy in memory."""

    def __init__(self, model: nn.Module) -> None:
        stack = family_of(model).pretrained_stack(model)
        weights = {} if stack is None else {name: each for name, each in stack.named_parameters() if each.ndim == 2}
        self._now = {kind: [weights[name] for name in weights if form.search(name)] for kind, form in KINDS.items()}
        self._before = {kind: [_numbers(weight).copy() for weight in of_kind] for kind, of_kind in self._now.items()}

    def __call__(self) -> dict[str, float]:
        """The drift of each kind of weights; empty for a model that was not pretrained."""
        return {
            kind: root_median_squared(map(_numbers, self._now[kind]), before)
            for kind, before in self._before.items()
            if before
        }


def with_drift(scores: Callable[[], dict[str, float]], model: nn.Module) -> Callable[[], dict[str, float]]:
    """Dev scores that include the drift from the model's current weights."""
    drift = Drift(model)
    return lambda: {**scores(), **drift()}


def _numbers(weight: Tensor) -> np.ndarray:
    return weight.detach().float().cpu().numpy()
