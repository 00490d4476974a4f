"""Back-translation: text as the target of its translation by a model, and a training on such pairs of both directions.

Text and a model of the other direction → Corpus (Sennrich, Haddow and Birch, 2016); with a tag before every source,
Caswell, Chelba and Grangier (2019). Model and translations in both directions → FinetunedModel: a round of on-the-fly
back-translation (Lample et al., 2018, section 3; Liu et al., 2020, section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.settings_base import OTHER_SIDE
from subgraft.data.synthetic_pairs import SPLIT, add_tag, lines_in_turn, write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import encode
from subgraft.data.text.segments import Text
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.compute.finetune import Finetuning
from subgraft.pipeline.stages.corpora import BackTranslatedStage
from subgraft.pipeline.stages.training import UnsupervisedStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.chunked_translation import Search, translate_in_chunks
from subgraft.training.context import Context
from subgraft.training.objectives.compute.dev_scores import describe_dev_engine
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import AuxiliaryText
from subgraft.training.objectives.compute.translation import DevScores, TaskPairs
from subgraft.training.progress import CURVE
from subgraft.training.setup import is_writer, peak_memory, write_curve
from subgraft.training.stage import Inputs, Summary


def back_translate(stage: BackTranslatedStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    text, reversed_languages = Corpus.open(inputs["text"], context.cache), stage.languages.reversed
    bundle, lines, part = Bundle.load(inputs["model"]), text.text(SPLIT, stage.side), stage.part
    if part is not None:
        lines = lines.take(lines_in_turn(len(lines), part.size, part.number, part.seed))
    search = Search(stage.beam, stage.max_length_ratio, stage.batch_size, stage.seed, stage.engine)
    if stage.min_count is not None:
        output_text = text.text(SPLIT, OTHER_SIDE[stage.side])
        search = replace(search, tokens=frequent_tokens(output_text, bundle.decoder, stage.min_count))
    translations = translate_in_chunks(bundle, lines, reversed_languages, search, context, SPLIT)
    # A model may have no output for a line, and an empty line is not a source.
    pairs = [(source, target) for source, target in zip(translations.texts, lines, strict=True) if source.strip()]
    if not pairs:
        hint = "Train it longer, or on more text, before it translates."
        raise UserError(f"the model ({stage.model}) has no output for any of {len(lines):,} lines", hint=hint)
    if is_writer():
        identity = {"kind": "back-translated", "text": dict(text.identity), **stage.model_dump(mode="json")}
        sources = (add_tag(source) if stage.tag else source for source, _ in pairs)
        tagged_pairs = zip(sources, (target for _, target in pairs), strict=True)
        write_pairs({SPLIT: tagged_pairs}, stage.languages, identity, out)
    copies = sum(source == target for source, target in pairs)
    return {
        "model": stage.model,
        **({} if search.tokens is None else {"generated_tokens": len(search.tokens)}),
        "sizes": {SPLIT: len(pairs)},
        "empty": len(lines) - len(pairs),
        "copies": copies,
        "cut_translations": translations.unfinished,
        "translation_seconds": translations.seconds,
    }


def frequent_tokens(text: Text, tokenizer: Tokenizer, min_count: int) -> frozenset[int]:
    """The tokens that occur at least `min_count` times in a text."""
    counts = np.bincount(encode(text, tokenizer).sequences.flat, minlength=len(tokenizer))
    return frozenset(np.flatnonzero(counts >= min_count).tolist())


class BothDirections(AuxiliaryText):
    """Synthetic pairs of both directions, half of each batch; scored on the task's dev pairs."""

    def __init__(self, forward: TaskPairs, backward: TaskPairs, task: ObjectiveInputs) -> None:
        super().__init__(forward, backward, 0.5)
        self._request = task

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        request = self._request
        return DevScores(bundle, list(request.corpus.pairs("dev")), request.languages, request.training)


def train_both_directions(stage: UnsupervisedStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle = Bundle.load_to_train(inputs["model"])
    stage = with_named_precision(stage, bundle.model, context)
    settings, languages = stage.training, stage.languages
    task = ObjectiveInputs(bundle, Corpus.open(inputs["corpus"], context.cache), languages, settings, stage.seed)

    def synthetic_pairs(role: str, request: ObjectiveInputs) -> TaskPairs:
        corpus = Corpus.open(inputs[role], context.cache)
        return TaskPairs(replace(request, corpus=corpus), settings, limited=False)

    backward = synthetic_pairs("synthetic/reversed", replace(task, languages=languages.reversed))
    data = BothDirections(synthetic_pairs("synthetic", task), backward, task)
    outcome = Finetuning(stage, data, context, None).train(bundle, settings, [])
    if is_writer():
        bundle.save(out)
    return {
        **write_curve(outcome, out),
        **describe_dev_engine(settings, bundle.model),
        "cut_pairs": data.truncated + backward.truncated,
        "parameters": bundle.model.num_parameters(),
        "trained_parameters": outcome.trained_parameters,
        "peak_memory": peak_memory(),
        "artifacts": [CURVE],
    }
