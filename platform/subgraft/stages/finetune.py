"""TransferredModel and Corpus → FinetunedModel: trained on the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from torch import Tensor, nn

from subgraft.grafting.attached_tables import AttachedTables
from subgraft.grafting.mixing_matrix import MixingMatrix, load_matrix
from subgraft.models.bundle import Bundle
from subgraft.models.sides import tables_of
from subgraft.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.objectives.translation import Translation
from subgraft.settings.base import Settings, SideName
from subgraft.settings.corpora import Languages
from subgraft.settings.training import TrainingSettings
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import CURVE, DevScores, fit, is_writer, write_curve
from subgraft.stages.phases import FirstPhase, joined, split_training, take_over_tables, train_tables_alone
from subgraft.text.batches import evenly_spaced
from subgraft.text.corpus import Corpus
from subgraft.training.loop import Outcome


class FinetuneRecipe(Settings):
    """first_phase: in which new tables alone are trained.  attached: the sides whose tables stay attached to those
    of the model `upstream`.  fast_tables: the sides whose tables `training.table_learning_rate` is for.  All are left
    out of the fingerprint where there is none.
    """

    languages: Languages
    training: TrainingSettings
    seed: int
    first_phase: FirstPhase | None = Field(default=None, exclude_if=lambda given: given is None)
    attached: tuple[SideName, ...] = Field(default=(), exclude_if=lambda given: not given)
    fast_tables: tuple[SideName, ...] = Field(default=(), exclude_if=lambda given: not given)


def run(recipe: FinetuneRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.training
    form = bundle.conditioning(recipe.languages)
    pairs = evenly_spaced(list(corpus.pairs("train")), settings.pairs)
    examples = Translation(pairs, bundle.encoder, bundle.decoder, form, settings.max_length, settings.batch_unit)
    finetuning = _Finetuning(recipe, Seq2SeqData(examples, *bundle.padding), list(corpus.pairs("dev")), context)
    if recipe.attached:
        matrices = {side: load_matrix(inputs["model"], side) for side in recipe.attached}
        outcome = finetuning.train_attached(bundle, Bundle.load(inputs["upstream"]), matrices)
    elif recipe.first_phase is not None:
        outcome = finetuning.train_in_phases(Bundle.load(inputs["model"]), bundle, recipe.first_phase)
    else:
        outcome = finetuning.train(bundle, settings)
    if is_writer():
        bundle.save(out)
    return {
        **write_curve(outcome, out),
        "cut_pairs": examples.cut,
        "parameters": bundle.model.num_parameters(),
        "artifacts": [CURVE],
    }


@dataclass(frozen=True)
class _Finetuning:
    recipe: FinetuneRecipe
    data: Seq2SeqData
    dev: Sequence[tuple[str, str]]
    context: Context

    def train(self, bundle: Bundle, settings: TrainingSettings, part: str = "all", steps_before: int = 0) -> Outcome:
        loss, scores = Seq2SeqLoss(bundle.model, settings.label_smoothing), self._dev_scores(bundle)
        return self._fit(loss, settings, scores, self._tables(bundle), part, steps_before)

    def train_attached(self, bundle: Bundle, upstream: Bundle, matrices: Mapping[SideName, MixingMatrix]) -> Outcome:
        """New rows stay attached to what they were mixed from; in the end the model has them as plain tables."""
        settings, scores = self.recipe.training, self._dev_scores(bundle)
        loss = AttachedTables(Seq2SeqLoss(bundle.model, settings.label_smoothing), upstream.model, matrices)

        def evaluate() -> dict[str, float]:
            loss.write()
            return scores()

        outcome = self._fit(loss, settings, evaluate, loss.rests)
        loss.write()
        return outcome

    def train_in_phases(self, frozen: Bundle, bundle: Bundle, phase: FirstPhase) -> Outcome:
        """First the tables, in a copy of the model: an engine arranges its model for what it trains."""
        settings, rest = split_training(self.recipe.training, self.data, self.recipe.seed, phase.share)
        train_tables_alone(frozen, phase.sides)
        first = self.train(frozen, settings, "tables")
        take_over_tables(frozen, bundle, phase.sides)
        return joined(first, self.train(bundle, rest, steps_before=first.steps))

    def _dev_scores(self, bundle: Bundle) -> DevScores:
        return DevScores(bundle, self.dev, self.recipe.languages, self.recipe.training)

    def _fit(
        self,
        loss: nn.Module,
        settings: TrainingSettings,
        evaluate: Callable[[], dict[str, float]],
        tables: Sequence[Tensor],
        part: str = "all",
        steps_before: int = 0,
    ) -> Outcome:
        return fit(
            loss,
            {"loss": 1.0},
            self.data,
            settings,
            self.context,
            group="finetune",
            seed=self.recipe.seed,
            evaluate=evaluate,
            select="bleu",
            part=part,
            steps_before=steps_before,
            tables=tables,
        )

    def _tables(self, bundle: Bundle) -> list[Tensor]:
        return list(tables_of(bundle.model, self.recipe.fast_tables).values())
