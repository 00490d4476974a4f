"""TransferredModel and Corpus → FinetunedModel: trained on the task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.config import Languages, Settings, TrainingSettings
from subgraft.models.bundle import Bundle
from subgraft.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.objectives.translation import Translation
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import CURVE, DevScores, fit, is_writer, write_curve
from subgraft.text.corpus import Corpus


class FinetuneRecipe(Settings):
    languages: Languages
    training: TrainingSettings
    seed: int


def run(recipe: FinetuneRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.training
    form = bundle.conditioning(recipe.languages)
    pairs = list(corpus.pairs("train"))
    examples = Translation(pairs, bundle.encoder, bundle.decoder, form, settings.max_length, settings.batch_unit)
    outcome = fit(
        Seq2SeqLoss(bundle.model, settings.label_smoothing),
        {"loss": 1.0},
        Seq2SeqData(examples, *bundle.padding),
        settings,
        context,
        seed=recipe.seed,
        evaluate=DevScores(bundle, list(corpus.pairs("dev")), recipe.languages, settings),
        select="bleu",
    )
    if is_writer():
        bundle.save(out)
    return {
        **write_curve(outcome, out),
        "cut_pairs": examples.cut,
        "parameters": bundle.model.num_parameters(),
        "artifacts": [CURVE],
    }
