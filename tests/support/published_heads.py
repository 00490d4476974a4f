"""Finetuned classifiers, taggers and readers as they are published, small: each around a checkpoint of `published`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

import published

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


@dataclass(frozen=True)
class Headed:
    """One finetuned checkpoint.

    base: writes the files of its base.  model_class: transformers' class of it.  labels: of id2label, if it has them.
    entries: others of its config.json.  extra: names and sizes of stored weights that its class does not have.
    """

    base: Callable[[Path], None]
    model_class: str
    labels: tuple[str, ...] = ()
    entries: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def publish(self, directory: Path) -> None:
        self.base(directory)
        config = transformers.AutoConfig.from_pretrained(directory)
        config.pad_token_id = self.entries.get("pad_token_id", config.pad_token_id)
        if self.labels:
            config.id2label = dict(enumerate(self.labels))
            config.label2id = {label: at for at, label in enumerate(self.labels)}
        torch.manual_seed(4)
        config.dtype = torch.float32
        model = getattr(transformers, self.model_class)(config).eval()
        (directory / "generation_config.json").unlink(missing_ok=True)
        model.save_pretrained(directory)
        weights = load_file(directory / "model.safetensors")
        weights |= {name: torch.zeros(size) for name, size in self.extra.items()}
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        written = json.loads((directory / "config.json").read_text()) | dict(self.entries)
        (directory / "config.json").write_text(json.dumps(written))


WIDTH = published.WIDTH
HEADED: Mapping[str, Headed] = {
    "bert-base-uncased-SST-2": Headed(published.mbert, "BertForSequenceClassification"),
    "distilbert-base-uncased-finetuned-sst-2-english": Headed(
        published.distilbert,
        "DistilBertForSequenceClassification",
        ("NEGATIVE", "POSITIVE"),
        {"finetuning_task": "sst-2"},
    ),
    "roberta-large-mnli": Headed(
        published.roberta,
        "RobertaForSequenceClassification",
        ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
        {"_num_labels": 3},
        {"roberta.pooler.dense.weight": (WIDTH, WIDTH), "roberta.pooler.dense.bias": (WIDTH,)},
    ),
    "xlm-roberta-base-language-detection": Headed(
        published.xlm_roberta,
        "XLMRobertaForSequenceClassification",
        ("de", "en", "fr"),
        {"problem_type": "single_label_classification"},
    ),
    "stsb": Headed(published.mbert, "BertForSequenceClassification", ("LABEL_0",), {"problem_type": "regression"}),
    "bert-base-NER": Headed(
        published.mbert,
        "BertForTokenClassification",
        TAGS,
        {"max_length": 64},
        {"bert.pooler.dense.weight": (WIDTH, WIDTH), "bert.pooler.dense.bias": (WIDTH,)},
    ),
    "bert-large-cased-whole-word-masking-finetuned-squad": Headed(published.mbert, "BertForQuestionAnswering"),
    "roberta-base-squad2": Headed(
        published.roberta, "RobertaForQuestionAnswering", entries={"language": "english", "name": "Roberta"}
    ),
    "bert-base-swag": Headed(published.mbert, "BertForMultipleChoice"),
    "deberta-v3-base-mnli": Headed(
        published.deberta_v3, "DebertaV2ForSequenceClassification", ("entailment", "neutral", "contradiction")
    ),
    "gpt2-imdb": Headed(published.gpt2, "GPT2ForSequenceClassification", ("neg", "pos"), {"pad_token_id": 0}),
    "llama-reward": Headed(
        published.llama_2,
        "LlamaForSequenceClassification",
        ("LABEL_0",),
        {"pad_token_id": 2, "problem_type": "regression"},
    ),
    "bart-large-mnli": Headed(
        published.bart,
        "BartForSequenceClassification",
        ("contradiction", "neutral", "entailment"),
        {"_num_labels": 3, "classif_dropout": 0.0, "num_beams": 4, "early_stopping": True, "no_repeat_ngram_size": 3},
    ),
    "t5-base-squad": Headed(published.t5, "T5ForQuestionAnswering"),
}
