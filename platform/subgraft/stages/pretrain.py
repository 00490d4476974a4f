"""Corpus and vocabularies, or a model → PretrainedModel: the upstream side, learnt here or pretrained further."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.models.bundle import Bundle
from subgraft.objectives.masked import MaskedLoss
from subgraft.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.recipes.pretrain import PretrainRecipe
from subgraft.stages.build import build
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import DevScores, fit, is_writer, write_curve
from subgraft.stages.kept_weights import CURVE
from subgraft.stages.upstream import masked_sentences, upstream_objective
from subgraft.text.corpus import Corpus
from subgraft.training.schedule import Data
from subgraft.training.selection import SELECTIONS


def run(recipe: PretrainRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    corpus = Corpus.open(inputs["corpus"], context.cache)
    bundle = _begun(recipe, inputs)
    loss = MaskedLoss if recipe.masking else Seq2SeqLoss
    outcome = fit(
        loss(bundle.model, recipe.training.label_smoothing),
        {"loss": 1.0},
        _data(recipe, bundle, corpus),
        recipe.training,
        context,
        group="pretrain",
        seed=recipe.seed,
        evaluate=_dev_scores(recipe, bundle, corpus),
        select=SELECTIONS[recipe.training.select or "bleu"] if recipe.objective == "translation" else None,
    )
    if is_writer():
        bundle.save(out)
    return {**write_curve(outcome, out), "parameters": bundle.model.num_parameters(), "artifacts": [CURVE]}


def _begun(recipe: PretrainRecipe, inputs: Mapping[str, Path]) -> Bundle:
    """The model before its first step: built, or the one that is pretrained further."""
    if recipe.model is None:
        return Bundle.load(inputs["model"])
    return build(recipe.model, inputs["encoder"], inputs["decoder"], recipe.seed)


def _data(recipe: PretrainRecipe, bundle: Bundle, corpus: Corpus) -> Data:
    languages, training, seed = recipe.languages, recipe.training, recipe.seed
    if recipe.masking:
        return masked_sentences(bundle, corpus, languages, recipe.masking, training, seed)
    objective = upstream_objective(
        recipe.objective, bundle, corpus, languages, recipe.noise, training, seed, recipe.sampling
    )
    return Seq2SeqData(objective, *bundle.padding)


def _dev_scores(recipe: PretrainRecipe, bundle: Bundle, corpus: Corpus) -> DevScores | None:
    """A model of monolingual text does not translate yet: it is judged by its training loss alone."""
    if recipe.objective != "translation":
        return None
    return DevScores(bundle, list(corpus.pairs("dev")), recipe.languages, recipe.training)
