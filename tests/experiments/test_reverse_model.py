"""Back-translated text: a reverse model that is given or trained here, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import finish, planned, tiny
from small_experiments import written as written_experiment
from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.step import made_by
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import FinetuneStage, PretrainStage
from subgraft.subwords.vocabulary.learn import learn
from toy_steps import record_of
from toys import (
    SHAPE,
    bert,
    build_marian,
    build_mbart,
    cased_tokenizer,
    english,
    english_tokenizer,
    german,
    german_tokenizer,
)

LINES = 12
OLD = "[{name: old, vocabulary: upstream, text: back-translated}]"
BOTH = """
  - {name: old, vocabulary: upstream, text: back-translated}
  - {name: mean, initialiser: mean, embedding_warmup: back-translated, train: body}
"""
DENOISING = "{corpus: upstream, objectives: [{kind: denoising}], vocabulary: {size: 60, byte_fallback: false}}"


def written(place: Path, systems: str = OLD, **sections: str) -> Path:
    downstream = "{corpus: downstream, text: {target: [more.txt]}, vocabulary: {size: 75, byte_fallback: false}}"
    config = written_experiment(place, tiny(downstream=downstream, systems=systems, **sections))
    (place / "more.txt").write_text("".join(f"{line}\n" for line in german(LINES, 9)), encoding="utf-8")
    return config


def inputs(place: Path) -> None:
    """A model from German to English in the folder `reverse`."""
    model = build_marian(german_tokenizer(), english_tokenizer(), seed=1, **SHAPE)
    (place / "reverse").mkdir()
    Bundle(model, german_tokenizer(), english_tokenizer()).save(place / "reverse")


def test_a_reverse_model_that_is_trained_here_exchanges_all_that_the_upstream_model_has(tmp_path: Path) -> None:
    result = planned(written(tmp_path, BOTH), "seeds=[1, 2]", "finetune.embedding_learning_rate=0.01")
    made = {steps.finetune.inputs["synthetic"] for steps in result.systems if "synthetic" in steps.finetune.inputs}
    first = {steps.embedding_warmup.inputs["synthetic"] for steps in result.systems if steps.embedding_warmup}
    assert len(made) == 1 and first == made, "systems and seeds share it"
    (reverse,) = made_by(FinetuneStage, [next(iter(made)).inputs["model"]])
    (pretrained,), (forward,) = (
        made_by(PretrainStage, [step]) for step in (reverse.inputs["model"], result.models.pretrained)
    )
    for recipe in (reverse.stage, pretrained.stage):
        assert (recipe.languages.source, recipe.languages.target) == ("de", "en")
    assert pretrained.stage.model == forward.stage.model and pretrained.stage.training == forward.stage.training
    assert pretrained.inputs["encoder"] is forward.inputs["decoder"]
    assert pretrained.inputs["decoder"] is forward.inputs["encoder"]
    assert (reverse.stage.training.train, reverse.stage.training.embedding_learning_rate) == ("all", None)


def test_text_is_translated_back_by_a_model_that_is_trained_here(tmp_path: Path) -> None:
    sampled = "{sample: true, max_length_ratio: 1.0}"
    result, store = finish(written(tmp_path, back_translation=sampled), "pretrain.max_steps=2", "finetune.max_steps=2")
    steps = result.systems[0]
    made = steps.finetune.inputs["synthetic"]
    reverse = made.inputs["model"]
    there, back = (
        Corpus.open(store.path(step)) for step in (result.inputs.downstream_corpus, reverse.inputs["corpus"])
    )
    assert back.languages == ("de", "en") and back.splits == there.splits
    for split in there.splits:
        assert list(back.pairs(split)) == [(target, source) for source, target in there.pairs(split)]
    pairs, summary = list(Corpus.open(store.path(made)).pairs("train")), record_of(store, made).summary
    assert summary["model"] == "finetune the reverse model"
    assert len(pairs) == summary["sizes"]["train"] and len(pairs) + summary["empty"] == LINES
    assert {target for _, target in pairs} <= set(german(LINES, 9)) and len({source for source, _ in pairs}) > 1
    assert [step.stage.stage_name for step in steps.synthetic_data] == ["pretrain", "finetune", "back-translated"]
    (system,) = result.report.stage.systems
    assert {result.report.inputs[key] for key in system.inputs.synthetic_data} == set(steps.synthetic_data)


def test_a_model_that_is_given_writes_sources_with_a_tag_which_the_encoder_must_be_able_to_spell(
    tmp_path: Path,
) -> None:
    inputs(tmp_path)
    config = written(tmp_path, back_translation="{model: reverse, tag: true, max_length_ratio: 1.0}")
    with pytest.raises(UserError, match="the encoder's vocabulary cannot spell the tag <BT>"):
        finish(config, "pretrain.max_steps=2")
    made, store = (
        planned(config, "pretrain.max_steps=2").systems[0].finetune.inputs["synthetic"],
        Store(tmp_path / "home"),
    )
    assert record_of(store, made).summary["model"] == "reverse"
    pairs = list(Corpus.open(store.path(made)).pairs("train"))
    assert pairs and all(source.startswith("<BT> ") for source, _ in pairs)


def test_a_checkpoint_that_cannot_spell_the_tag_is_reported_before_anything_runs(tmp_path: Path) -> None:
    inputs(tmp_path)
    (tmp_path / "forward").mkdir()
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **SHAPE)
    Bundle(model, english_tokenizer(), german_tokenizer()).save(tmp_path / "forward")
    changes = ("finetune.max_length=30", "upstream.checkpoint=forward", "back_translation.model=reverse")
    config = written(tmp_path)
    assert planned(config, *changes).report
    with pytest.raises(UserError, match=r"upstream.checkpoint: forward: .* cannot spell the tag"):
        _ = planned(config, *changes, "back_translation.tag=true").report
    with pytest.raises(UserError, match="needs a model of the reverse direction, and the checkpoint translates only"):
        planned(config, *changes, "back_translation.model=null")


def test_a_model_that_learnt_no_direction_is_finetuned_in_both(tmp_path: Path) -> None:
    result = planned(written(tmp_path, upstream=DENOISING), "model.family=mbart")
    steps = result.systems[0]
    assert steps.finetune.inputs["synthetic"].inputs["model"].inputs["model"] is result.models.pretrained
    assert [step.stage.stage_name for step in steps.synthetic_data] == ["finetune", "back-translated"], (
        "pretraining is billed once"
    )


def test_a_reverse_model_of_other_languages_is_refused(tmp_path: Path) -> None:
    inputs(tmp_path)
    config = written(tmp_path, back_translation="{model: reverse}")
    message = {"recipe": {"languages": {"source": "en", "target": "de_DE"}}}
    (tmp_path / "reverse" / "record.json").write_text(json.dumps(message))
    with pytest.raises(UserError, match="a model from en to de_DE, but one from de to en is needed"):
        _ = planned(config).report
    (tmp_path / "reverse" / "record.json").unlink()
    (tmp_path / "reverse" / "tokenizer_config.json").write_text('{"source_lang": "de", "target_lang": "fr"}')
    with pytest.raises(UserError, match="a model from de to fr, but one from de to en is needed"):
        _ = planned(config).report
    # A model without codes has one source, whatever its target is.
    (tmp_path / "reverse" / "tokenizer_config.json").write_text('{"source_lang": "fr", "target_lang": "en"}')
    with pytest.raises(UserError, match="a model from fr to en, but one from de to en is needed"):
        _ = planned(config).report
    # The name of a group says nothing of its languages.
    (tmp_path / "reverse" / "tokenizer_config.json").write_text('{"source_lang": "gmw", "target_lang": "en"}')
    assert planned(config).report


def test_a_model_that_does_not_translate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    Bundle(bert(), cased_tokenizer(), cased_tokenizer()).save(tmp_path / "encoder")
    with pytest.raises(UserError, match="a bert model does not translate"):
        _ = planned(written(tmp_path, back_translation="{model: encoder}")).report
    with pytest.raises(UserError, match="leave out beam"):
        planned(tmp_path / "config.yaml", "back_translation={sample: true, beam: 4}")


def test_a_reverse_model_that_marks_its_sources_may_be_finetuned_on_another_language(tmp_path: Path) -> None:
    """Back-translation by transfer (Liu et al. 2020, section 5.2): from French to English, it reads German."""
    codes = ("de_DE", "en_XX", "fr_XX")
    tokenizer = learn(english() + german(), kind="unigram", size=110, mask=True, languages=codes)
    (tmp_path / "reverse").mkdir()
    Bundle(build_mbart(tokenizer, seed=1, **SHAPE), tokenizer, tokenizer).save(tmp_path / "reverse")
    record = tmp_path / "reverse" / "record.json"
    config = written(tmp_path, back_translation="{model: reverse}")
    record.write_text(json.dumps({"recipe": {"languages": {"source": "fr", "target": "en"}}}))
    made = planned(config).systems[0].finetune.inputs["synthetic"]
    assert made.inputs["model"].stage.stage_name == "checkpoint" and made.stage.model == "reverse"  # type: ignore[attr-defined]
    record.write_text(json.dumps({"recipe": {"languages": {"source": "de", "target": "fr"}}}))
    with pytest.raises(UserError, match="a model from de to fr, but one from de to en is needed"):
        _ = planned(config).report
