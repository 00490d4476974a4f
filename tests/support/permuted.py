"""Permutation language modelling of documents that tests write for themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import PretrainSettings
from subgraft.contrib.xlnet.objective import PermutationSettings
from subgraft.contrib.xlnet.permutation import PermutationObjective, permute
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from toys import english, multilingual_tokenizer, xlnet

ENGLISH = Languages(source="en", target="en")


def documents(place: Path, count: int = 8, lines: int = 9, repeated: str | None = None) -> Corpus:
    """A corpus of documents of 1 to `lines` sentences, no two alike. repeated: a sentence in the middle of each."""
    place.mkdir(parents=True, exist_ok=True)
    sentences = iter(dict.fromkeys(english(3 * count * lines, 3)))
    texts = [[next(sentences) for _ in range(1 + number * 5 % lines)] for number in range(count)]
    for text in texts if repeated else ():
        text.insert(len(text) // 2, str(repeated))
    written = [json.dumps({"document": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    (place / "train.jsonl").write_text("\n".join(written) + "\n", encoding="utf-8")
    fields = {"text": {"language": "en"}}
    records = {"records": {"folder": str(place), "fields": fields, "document": "document"}}
    cleaning = Cleaning(max_characters=None, drop_held_out=False)
    return build(CorpusSource.model_validate(records), ENGLISH, cleaning, place / "corpus")


def objective(
    corpus: Corpus, settings: dict[str, Any] | None = None, model: Any = None, **training: Any
) -> PermutationObjective:
    """The objective on a small XLNet, with 40 tokens to a block and 160 to a batch."""
    bundle = Bundle(model or xlnet(), multilingual_tokenizer(), multilingual_tokenizer())
    defaults = {"epochs": 3, "batch_size": 160, "max_length": 40, "learning_rate": 0.01, "warmup_steps": 2}
    request = ObjectiveInputs(bundle, corpus, ENGLISH, PretrainSettings(**(defaults | training)), seed=3)
    return permute(PermutationSettings(**{"input": "doc-sentences", **(settings or {})}), request)
