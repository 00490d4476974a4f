"""The vocabulary before a transfer is found by the model's own files, or the reason is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import subgraft
from finished import separate_bundle
from small_experiments import finish_steps, planned, tiny, written
from subgraft.experiments.origin import origin_of
from subgraft.subwords.vocabulary.learn import learn
from toys import german, german_tokenizer


def _transferred(place: Path) -> Path:
    separate_bundle().save(place / "old")
    subgraft.transfer(place / "old", learn(german(400, 7), kind="unigram", size=120)).save(place / "new")
    return place / "new"


def test_a_transfer_names_its_original(tmp_path: Path) -> None:
    origin = origin_of(_transferred(tmp_path))
    assert origin.model == str(tmp_path / "old") and origin.methods == {"decoder": "mean"} and not origin.missing
    assert origin.tokenizers["decoder"].fingerprint == german_tokenizer().fingerprint


def test_an_original_that_changed_or_is_gone_is_not_shown(tmp_path: Path) -> None:
    new = _transferred(tmp_path)
    shutil.rmtree(tmp_path / "old" / "decoder")
    learn(german(400, 3), kind="unigram", size=90).save(tmp_path / "old" / "decoder")
    origin = origin_of(new)
    assert not origin.tokenizers and "another vocabulary now" in origin.missing
    shutil.rmtree(tmp_path / "old")
    origin = origin_of(new)
    assert not origin.tokenizers and "cannot be read" in origin.missing and origin.methods == {"decoder": "mean"}


def test_files_of_other_programs_say_nothing(tmp_path: Path) -> None:
    separate_bundle().save(tmp_path)
    assert not origin_of(tmp_path).tokenizers and "do not say" in origin_of(tmp_path).missing
    (tmp_path / "record.json").write_text(json.dumps({"stage": "finetune", "inputs": {"model": "../.."}}))
    (tmp_path / "transfer.json").write_text(json.dumps({"decoder": {"method": "mean"}, "original": 5}))
    assert not origin_of(tmp_path).tokenizers and "does not name" in origin_of(tmp_path).missing


def test_an_experiments_model_is_followed_to_the_one_it_was_transferred_from(tmp_path: Path) -> None:
    config = written(tmp_path, tiny(pretrain="{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2}"))
    pipeline = planned(config)
    plain, mean = (steps.finetune for steps in pipeline.systems)
    store = finish_steps([plain, mean], tmp_path)
    old, new = origin_of(store.path(plain)), origin_of(store.path(mean))
    assert {len(tokenizer) for tokenizer in old.tokenizers.values()} == {60} and not old.methods
    assert {len(tokenizer) for tokenizer in new.tokenizers.values()} == {60}
    assert new.methods == {"decoder": "mean"} and new.trained and new.copies_shared
    shutil.copytree(store.path(mean), tmp_path / "elsewhere")
    shutil.move(tmp_path / "home", tmp_path / "gone")
    lost = origin_of(tmp_path / "elsewhere")
    assert not lost.tokenizers and "no longer in the store" in lost.missing
