"""Translation as a pretraining objective."""

from __future__ import annotations

from collections.abc import Callable

from subgraft.config.objectives import TranslationSettings
from subgraft.training.objectives.dev_scores import DevScores
from subgraft.training.objectives.objective import Request
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
