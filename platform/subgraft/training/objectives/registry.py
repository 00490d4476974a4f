"""Translation as a pretraining objective, and all pretraining objectives by their kind in `config.objectives`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from subgraft.config.objectives import ObjectiveSettings, TranslationSettings
from subgraft.training.objectives.causal import CausalObjective
from subgraft.training.objectives.denoising import denoise
from subgraft.training.objectives.dev_scores import DevScores
from subgraft.training.objectives.masked import MaskedObjective
from subgraft.training.objectives.objective import Objective, Request
from subgraft.training.objectives.parallel_text import Translation
from subgraft.training.objectives.seq2seq import Seq2SeqObjective
from subgraft.training.objectives.subword_regularization import Sampling


class TranslationObjective(Seq2SeqObjective):
    """Translation of the corpus's pairs; the best dev BLEU selects the weights."""

    select: str | None = "bleu"

    def __init__(self, request: Request) -> None:
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

    @classmethod
    def of(cls, settings: TranslationSettings, request: Request) -> TranslationObjective:
        del settings
        return cls(request)

    def dev_scores(self) -> Callable[[], dict[str, float]]:
        request = self._request
        return DevScores(request.bundle, list(request.corpus.pairs("dev")), request.languages, request.training)


OBJECTIVES: Mapping[str, Callable[[Any, Request], Objective]] = {
    "translation": TranslationObjective.of,
    "denoising": denoise,
    "masked": MaskedObjective.of,
    "causal": CausalObjective.of,
}


def objectives_of(settings: Sequence[ObjectiveSettings], request: Request) -> dict[str, Objective]:
    """The configured objectives on one model and its text, by kind."""
    return {each.kind: OBJECTIVES[each.kind](each, request) for each in settings}
