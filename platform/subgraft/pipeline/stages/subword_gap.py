"""PretrainedModel and Vocabulary → the subword gap between them on the task's text, and what each cannot spell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.recipes.vocabularies import GapRecipe
from subgraft.subwords.vocabulary.compare import compare
from subgraft.subwords.vocabulary.spelling import round_trip, spelling
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json

SIDES: tuple[SideName, ...] = ("encoder", "decoder")


def run(recipe: GapRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Inputs: `model`, `corpus`, the decoder's new `vocabulary`, and the encoder's (`encoder`) if it has a new one."""
    del context
    corpus = Corpus.open(inputs["corpus"])
    upstream = load_tokenizers(inputs["model"])
    downstream = {"decoder": Tokenizer.load(inputs["vocabulary"])}
    downstream |= {"encoder": Tokenizer.load(inputs["encoder"])} if "encoder" in inputs else {}
    gap = compare(
        upstream["decoder"], downstream["decoder"], corpus.lines("train", corpus.text_of("decoder")), recipe.words
    )
    spelled = [
        _spelled(role, side, split, tokenizers[side], corpus)
        for side in SIDES
        for split in ("train", "test")
        for role, tokenizers in (("upstream", upstream), ("downstream", downstream))
        if side in tokenizers
    ]
    found = gap.to_json() | {"spelling": spelled}
    (out / "gap.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return {"seen": gap.seen, "unseen": gap.unseen, "artifacts": ["gap.json"]}


def _spelled(role: str, side: SideName, split: str, tokenizer: Tokenizer, corpus: Corpus) -> dict[str, Json]:
    """Counts of a split; for the test set also BLEU and chrF of decode(encode(text)) against the text itself."""
    text_side = corpus.text_of(side)
    found: dict[str, Json] = {"role": role, "side": side, "split": split}
    found |= asdict(spelling(tokenizer, corpus.lines(split, text_side)))
    if split == "test" and corpus.size("test"):
        lines, language = list(corpus.lines(split, text_side)), str(corpus.field(text_side).language)
        scores = corpus_scores(round_trip(tokenizer, lines), lines, language, ["BLEU", "chrF"])
        found["scores"] = {name: asdict(score) for name, score in scores.items()}
    return found
