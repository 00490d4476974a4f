"""A plan says what the upstream vocabularies cannot spell of the task's text, as soon as both are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toys
from small_experiments import TINY, finish_steps, planned, written
from subgraft.base.errors import UserError
from subgraft.experiments.plan_warnings import lost_lines, unknown_tokens
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The task's German has what no upstream text has, in every second sentence."""
    config = written(tmp_path, TINY)
    path = tmp_path / "downstream" / "train.de"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line} (7)\n" if i % 2 else f"{line}\n" for i, line in enumerate(lines)))
    return config


def message(config: Path, *changes: str, home: str = "home") -> list[str]:
    pipeline = planned(config, *changes)
    return unknown_tokens(Store(config.parent / home), pipeline.models.pretrained, pipeline.inputs.downstream_corpus)


SPELLS_ALL = "the upstream encoder's vocabulary spells all of 60 training sentences of the task"


def test_of_a_checkpoint_it_is_known_before_anything_is_made(config: Path) -> None:
    model = Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer())
    model.save(config.parent / "model")
    lines = (config.parent / "downstream" / "train.de").read_text().splitlines()
    ids = [model.decoder.encode(line) for line in lines]
    share = sum(each.count(model.decoder.special["unk"]) for each in ids) / sum(map(len, ids))
    limits = [f"{where}.max_length=40" for where in ("pretrain", "generator_training", "finetune")]
    encoder, decoder = message(config, "upstream={corpus: upstream, checkpoint: model}", *limits)
    assert encoder == SPELLS_ALL
    assert decoder == (
        f"the upstream decoder's vocabulary cannot spell {share:.1%} of the task's tokens, in 50.0% of 60 training "
        "sentences; it lacks ( ) 7"
    )


def test_of_documents_that_are_not_in_the_store_yet(config: Path) -> None:
    """Their segments have a place in a document behind their texts."""
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(config.parent / "model")
    chapters = config.parent / "chapters"
    chapters.mkdir()
    for split in ("train", "dev", "test"):
        row = {"document": split, "en": toys.english(4), "de": toys.german(4)}
        (chapters / f"{split}.jsonl").write_text(f"{json.dumps(row)}\n")
    records = "{records: {folder: chapters, fields: {en: {}, de: {}}, document: document}}"
    limits = [f"{where}.max_length=40" for where in ("pretrain", "generator_training", "finetune")]
    encoder, decoder = message(
        config, f"corpora.downstream={records}", "upstream={corpus: upstream, checkpoint: model}", *limits
    )
    assert encoder == "the upstream encoder's vocabulary spells all of 4 training sentences of the task"
    assert decoder == "the upstream decoder's vocabulary spells all of 4 training sentences of the task"


def test_of_a_pretraining_once_its_vocabularies_are_in_the_store(config: Path) -> None:
    assert message(config) == []
    pipeline = planned(config)
    wanted = [*pipeline.vocabularies.upstream.values(), pipeline.inputs.downstream_corpus]
    finish_steps(wanted, config.parent)
    encoder, decoder = message(config)
    assert encoder == SPELLS_ALL
    assert "cannot spell" in decoder and decoder.endswith("; it lacks ( ) 7")


def test_lines_that_a_learnt_vocabulary_loses(config: Path) -> None:
    """Of a checkpoint's vocabulary: above the bound the vocabulary is refused, below it the plan has a warning."""
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(config.parent / "model")
    limits = [f"{where}.max_length=40" for where in ("pretrain", "generator_training", "finetune")]
    checkpoint = "upstream={corpus: upstream, checkpoint: model}"
    rare = "{kind: wordpiece, size: 70, character_coverage: 0.9, max_lost_lines: %s}"

    def learn(bound: float) -> list[str]:
        changes = [checkpoint, *limits, f"downstream.vocabulary={rare % bound}"]
        pipeline = planned(config, *changes)
        finish_steps([pipeline.vocabularies.downstream["decoder"]], config.parent)
        corpus, steps = pipeline.inputs.downstream_corpus, in_order([pipeline.report])
        return lost_lines(Store(config.parent / "home"), corpus, steps)

    with pytest.raises(UserError, match=r"downstream.vocabulary.max_lost_lines: the new vocabulary changes \d+ of"):
        learn(0.01)
    (line,) = learn(1.0)
    assert (
        line.startswith("a new vocabulary of the decoder changes") and "of 60 lines" in line and "LATIN SMALL" in line
    )
    assert learn(0.01) == [line], "the bound does not change the result"
