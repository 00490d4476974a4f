"""FinetunedModel and Corpus → Evaluation: translations of the test set, their scores, speed and size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from subgraft.config import EvaluationSettings, Languages, Settings
from subgraft.metrics.scores import corpus_scores
from subgraft.metrics.speed import Speed, measure_speed
from subgraft.models.bundle import Bundle
from subgraft.models.translate import Translator
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import device
from subgraft.text.corpus import Corpus


class EvaluateRecipe(Settings):
    languages: Languages
    evaluation: EvaluationSettings


def run(recipe: EvaluateRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    pairs = list(corpus.pairs("test"))[: settings.test_sentences]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    translate = translator(bundle, recipe.languages, settings)
    hypotheses = translate(sources, settings.batch_size, context.progress)
    cut = translate.cut
    speed = _speed(translate, sources, settings)
    scores = {
        name: asdict(score) for name, score in corpus_scores(hypotheses, references, recipe.languages.target).items()
    }
    for name, lines in (("sources", sources), ("references", references), ("hypotheses", hypotheses)):
        (out / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    result: dict[str, Json] = {
        "scores": scores,
        "tokens_per_sentence": tokens_per_sentence(bundle, references),
        "speed": asdict(speed),
        "parameters": bundle.model.num_parameters(),
        "sentences": len(sources),
        "cut_outputs": cut,
    }
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    return {
        **{name: score["value"] for name, score in scores.items()},
        "sentences_per_second": speed.median,
        "cut_outputs": cut,
        "signatures": {name: score["signature"] for name, score in scores.items()},
        "artifacts": ["evaluation.json"],
    }


def translator(bundle: Bundle, languages: Languages, settings: EvaluationSettings) -> Translator:
    """Beam search with the settings of the evaluation, on the GPU where there is one."""
    return Translator(
        bundle.model.to(device()),  # type: ignore[arg-type]
        bundle.encoder,
        bundle.decoder,
        bundle.conditioning(languages),
        beam=settings.beam,
        max_length_ratio=settings.max_length_ratio,
        max_positions=bundle.max_positions,
    )


def tokens_per_sentence(bundle: Bundle, references: Sequence[str]) -> float:
    """Mean length of the references in tokens of the decoder's vocabulary, the end of sentence included."""
    encoded = bundle.decoder.encode_batch(references)
    return sum(len(tokens) + 1 for tokens in encoded) / len(encoded)


def _speed(translate: Translator, sources: Sequence[str], settings: EvaluationSettings) -> Speed:
    torch.manual_seed(0)
    chosen = sources[: settings.speed_sentences]
    return measure_speed(
        lambda batch: translate(batch, settings.batch_size),
        chosen,
        batch_size=settings.batch_size,
        repeats=settings.speed_repeats,
    )
