"""Bits per character of the test references, by how many tokens of each are new."""

from __future__ import annotations

import json
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.token_classes import BitsByClass, token_classes
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.recipes.evaluation import LikelihoodRecipe
from subgraft.pipeline.stages.stage import LIKELIHOOD, Inputs, Summary
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.objectives.translation import reference_nats
from subgraft.training.setup import device


def measure_likelihood(recipe: LikelihoodRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Inputs: `model`, `corpus`, the task's `vocabulary`, and `upstream`, the model whose decoder lacks new tokens."""
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    upstream = load_tokenizers(inputs["upstream"])["decoder"]
    downstream = Tokenizer.load(inputs["vocabulary"])
    classes = token_classes(downstream, upstream, corpus.lines("train", "target"))
    same = bundle.decoder.fingerprint == downstream.fingerprint
    own = classes if same else token_classes(bundle.decoder, upstream, corpus.lines("train", "target"))
    pairs = list(corpus.pairs("test"))[: recipe.test_sentences]
    bundle.model.to(device())  # type: ignore[arg-type]
    nats = dict(sorted(reference_nats(bundle, pairs, recipe.languages, context.progress)))
    if not nats:
        raise UserError(f"no test reference fits into the {bundle.max_positions} tokens that the model takes")
    sums = BitsByClass((bundle.decoder, own), upstream, (downstream, classes))
    sums.add([pairs[place][1] for place in nats], list(nats.values()))
    likelihood = sums.result(left_out=len(pairs) - len(nats))
    record = json.dumps(likelihood.to_json(), ensure_ascii=False, indent=1)
    (out / LIKELIHOOD).write_text(record + "\n", encoding="utf-8")
    return {
        "test_bits_per_character": likelihood.bits_per_character,
        "references_left_out": likelihood.left_out,
        "artifacts": [LIKELIHOOD],
    }
