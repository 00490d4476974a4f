"""Rounds of back-translation: who translates what for whom, and that the text is what these models write."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray import cloudpickle

from killed_steps import made_again_after_a_kill
from small_experiments import finish, planned, tiny
from small_experiments import written as written_experiment
from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.orchestration.store.step import Step, in_order, made_by
from subgraft.pipeline.stages.corpora import BackTranslatedStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training import chunked_translation
from toy_steps import record_of
from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer

SYSTEMS = """
  - {name: one, vocabulary: upstream, text: back-translated, back_translation_rounds: 1}
  - {name: two, vocabulary: upstream, text: back-translated, back_translation_rounds: 2}
  - {name: three, initialiser: mean, text: back-translated}
"""
DENOISING = "{corpus: upstream, objectives: [{kind: denoising}], vocabulary: {size: 60, byte_fallback: false}}"
TEXT = "{target: [more.txt], source: [read.txt]}"


def written(place: Path, text: str = TEXT, rounds: str = "{rounds: 3}", **sections: str) -> Path:
    downstream = f"{{corpus: downstream, text: {text}, vocabulary: {{size: 75, byte_fallback: false}}}}"
    changed = {"downstream": downstream, "systems": SYSTEMS, "back_translation": rounds} | sections
    config = written_experiment(place, tiny(**changed))
    for name, lines in (("more.txt", german(12, 9)), ("read.txt", english(12, 8))):
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return config


def pairs_of(pipeline: Pipeline, system: str) -> Step[BackTranslatedStage]:
    (steps,) = (each for each in pipeline.systems if each.system.name == system)
    (text,) = made_by(BackTranslatedStage, [steps.finetune.inputs["synthetic"]])
    return text


def direction(recipe: BackTranslatedStage | FinetuneStage) -> str:
    languages = recipe.languages
    return f"{languages.source}-{languages.target}"


def test_the_models_of_a_round_read_what_those_of_the_last_one_wrote(tmp_path: Path) -> None:
    result = planned(written(tmp_path))
    text = pairs_of(result, "three")
    for left, way, back in ((2, "en-de", "de-en"), (1, "de-en", "en-de"), (0, "en-de", "de-en")):
        assert direction(text.stage) == way and text.stage.side == ("target" if way == "en-de" else "source")
        model = text.input("model", FinetuneStage)
        assert direction(model.stage) == back
        corpus = result.inputs.downstream_corpus
        assert (model.inputs["corpus"] if back == "en-de" else model.inputs["corpus"].inputs["corpus"]) is corpus
        assert ("synthetic" in model.inputs) == (left > 0) == (model.stage.text_objective is not None)
        if left:
            (text,) = made_by(BackTranslatedStage, [model.inputs["synthetic"]])
    steps = in_order([result.report])
    assert len(made_by(BackTranslatedStage, steps)) == 5, "three texts of targets, two of sources: rounds are shared"
    shared = pairs_of(result, "two").inputs["model"].inputs["synthetic"].input("model", FinetuneStage)
    assert direction(shared.stage) == "en-de" and shared.stage.text_objective is None


def test_steps_with_rounds_can_be_sent_to_a_searchs_trials(tmp_path: Path) -> None:
    result = planned(written(tmp_path))
    sent = cloudpickle.loads(cloudpickle.dumps(result))
    assert sent.report.fingerprint == result.report.fingerprint


def test_every_round_begins_with_the_upstream_model_and_has_its_share_of_each_batch(tmp_path: Path) -> None:
    config = written(tmp_path, upstream=DENOISING, model="{family: mbart, d_model: 16, attention_heads: 2}")
    result = planned(config, "finetune.monolingual_fraction=0.25")
    models = made_by(FinetuneStage, in_order([pairs_of(result, "three")]))
    assert len(models) == 3 and all(step.inputs["model"] is result.models.pretrained for step in models)
    assert {step.stage.training.monolingual_fraction for step in models if "synthetic" in step.inputs} == {0.25}
    assert {step.stage.training.max_steps for step in models} == {4}, "equal updates in every round"


@pytest.mark.slow
def test_the_text_of_a_round_is_what_the_model_that_its_record_names_writes_also_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_translation, "CHUNK", 4)
    result, store = finish(
        written(tmp_path, rounds="{rounds: 2, beam: 2, max_length_ratio: 1.0, batch_size: 5}"),
        "pretrain.max_steps=2",
        "finetune.max_steps=3",
        "systems=[{name: three, vocabulary: upstream, text: back-translated}]",
    )
    text = pairs_of(result, "three")
    earlier = text.inputs["model"].input("synthetic", BackTranslatedStage)
    for step, names in ((text, "reverse model, round 1"), (earlier, "forward model")):
        record = record_of(store, step)
        assert record.summary["model"] == f"finetune the {names}"
        assert record.inputs["model"]["fingerprint"] == step.inputs["model"].fingerprint
        assert step.stage.engine == "ctranslate2", "which writes what transformers writes"
        languages = step.stage.languages.reversed
        bundle = Bundle.load(store.path(step.inputs["model"]))
        translate = Translator(
            bundle.model,
            bundle.encoder,
            bundle.decoder,
            bundle.sequence_format(languages),
            beam=2,
            max_length_ratio=1.0,
            max_positions=bundle.max_positions,
        )
        lines = list(Corpus.open(store.path(step.inputs["text"])).lines("train", step.stage.side))
        expected = [(made, line) for made, line in zip(translate(lines), lines, strict=True) if made]
        assert expected and list(Corpus.open(store.path(step)).pairs("train")) == expected
    (system,) = result.systems
    assert [step.stage.__class__.__name__ for step in system.synthetic_data] == [
        "PretrainStage",  # of the reverse direction
        "FinetuneStage",
        "BackTranslatedStage",
        "FinetuneStage",
        "BackTranslatedStage",
    ]
    for interrupted in (text, text.inputs["model"]):
        whole, again = made_again_after_a_kill(interrupted, tmp_path / "home", 2, monkeypatch)
        assert whole and whole == again


def test_a_given_reverse_model_is_where_later_rounds_begin(tmp_path: Path) -> None:
    config = written(tmp_path, rounds="{rounds: 2, model: reverse, tag: true}")
    model = build_marian(german_tokenizer(), english_tokenizer(), seed=1, **SHAPE)
    (tmp_path / "reverse").mkdir()
    Bundle(model, german_tokenizer(), english_tokenizer()).save(tmp_path / "reverse")
    text = pairs_of(planned(config), "two")
    assert text.stage.model == "finetune the reverse model, round 1"
    assert text.inputs["model"].inputs["model"].name == "reverse model reverse"
    assert pairs_of(planned(config), "one").stage.model == "reverse"


@pytest.mark.parametrize(
    ("text", "systems", "message"),
    [
        ("{target: [more.txt]}", SYSTEMS, r"system two: text: back-translated has 2 rounds, which translate text of"),
        (TEXT, "[{name: a, vocabulary: upstream, back_translation_rounds: 2}]", "for systems with `text: back-trans"),
    ],
)
def test_rounds_without_text_of_both_languages_are_refused(
    tmp_path: Path, text: str, systems: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        planned(written(tmp_path, text, systems=systems))
