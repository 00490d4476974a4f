"""A BERT from its corpora to the report: made into an encoder-decoder, and its vocabulary transferred."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
import torch

from small_experiments import finish, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator import load_generator
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.alignment import align
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.masked import MaskedObjective
from subgraft.training.objectives.masked import MaskedSettings
from toys import english, english_tokenizer, german, german_tokenizer, marian, publish_bert

CONFIG = tiny(
    upstream="{corpus: upstream, objectives: [{kind: masked}], vocabulary: {kind: wordpiece, size: 150}}",
    downstream="{corpus: downstream, vocabulary: {kind: wordpiece, size: 200}}",
    model="{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
    pretrain="{max_steps: 4, batch_size: 500, precision: fp32}",
    generator_training="{max_steps: 3, batch_size: 300, max_length: 30, precision: fp32}",
    finetune="{max_steps: 4, batch_size: 500, max_length: 40, precision: fp32, dev_sentences: 2}",
    systems="""
      - {name: without, vocabulary: upstream}
      - {name: mean, initialiser: mean}
      - {name: patt+kd, initialiser: patt, kd_weight: 0.5}
    """,
    evaluation="{beam: 2, speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20}",
)
OTHERS = (
    "systems=[{name: without, vocabulary: upstream}, {name: single, pretraining: none},"
    " {name: task, pretraining: downstream-vocabulary},"
    " {name: independent, initialiser: random, copy_shared_tokens: false, embeddings_only_fraction: 0.5}]"
)

JOINT = "systems=[{name: without, vocabulary: upstream}, {name: joint, pretraining: joint-vocabulary}]"
WORD2VEC = "systems=[{name: word2vec, initialiser: word2vec}]"
# Systems whose stages look into the model for themselves.
TRAINED = (
    "systems=[{name: distilled, initialiser: token-distillation},"
    " {name: attached, initialiser: avg, tie_to_sources: true}]",
    "token_distillation_training={max_steps: 2, batch_size: 300, max_length: 40, precision: fp32, dev_sentences: 2}",
)


@pytest.fixture(scope="module", params=[pytest.param("decoder", marks=pytest.mark.slow), "encoder, decoder"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    return finish(written(tmp_path_factory.mktemp("bert"), CONFIG), f"sides=[{request.param}]")


def by_name(pipeline: Pipeline) -> dict[str, SystemSteps]:
    return {steps.system.name: steps for steps in pipeline.systems}


@pytest.mark.slow
def test_the_sides_that_change_speak_the_tasks_vocabulary(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    changed = pipeline.experiment.sides
    for name, steps in by_name(pipeline).items():
        bundle = Bundle.load(store.path(steps.finetune))
        assert bundle.model.config.model_type == "encoder-decoder"
        sizes = {"encoder": len(bundle.encoder), "decoder": len(bundle.decoder)}
        assert sizes == {each: 200 if each in changed and name != "without" else 150 for each in sizes}
        assert (store.path(steps.evaluate) / "hypotheses.txt").read_text().count("\n") == 3
    assert "bert, 1 layers of width 16" in (store.path(pipeline.report) / "report.md").read_text()


def test_all_systems_start_from_the_same_bert(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    systems = by_name(pipeline)
    assert {id(steps.pretrained) for steps in systems.values()} == {id(pipeline.models.pretrained)}
    bert, made = Bundle.load(store.path(pipeline.models.pretrained)), systems["without"].finetune.inputs["model"]
    assert made.stage.stage_name == "assemble" and made.inputs["model"] is pipeline.models.pretrained
    upstream = side(bert.model, "decoder").input.weight
    for name in ("mean", "patt+kd"):
        transfer = systems[name].transfer
        assert transfer is not None and transfer.inputs["model"].fingerprint == made.fingerprint
        fitted = Bundle.load(store.path(transfer))
        for each in ("encoder", "decoder"):
            table = side(fitted.model, each).input.weight
            vocabulary = fitted.tokenizers[each]
            origins = torch.from_numpy(align(bert.decoder, vocabulary).origins)
            assert torch.equal(table[origins >= 0], upstream[origins[origins >= 0]])


def test_one_generator_is_trained_on_masked_text_and_serves_every_side(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    step = by_name(pipeline)["patt+kd"].generator
    assert step is not None and step.inputs["model"] is pipeline.models.pretrained
    path = store.path(step)
    record = json.loads((path / "record.json").read_text())
    assert len(record["summary"]) == 1, "trained once"
    curve = json.loads((path / f"curve.{pipeline.experiment.sides[0]}.json").read_text())
    assert curve is not None
    trained = [load_generator(path, name)[0].weight for name in pipeline.experiment.sides]
    assert all(torch.equal(weight, trained[0]) for weight in trained)
    assert trained[0].abs().sum() > 0


def test_every_second_seven_lines_of_a_language_are_one_document(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    bert = Bundle.load(store.path(pipeline.models.pretrained))
    corpus, languages = (
        Corpus.open(store.path(pipeline.models.pretrained.inputs["corpus"])),
        pipeline.experiment.languages,
    )
    request = ObjectiveInputs(bert, corpus, languages, pipeline.experiment.pretrain, seed=1)
    documents = MaskedObjective.of(MaskedSettings(sentences_per_document=7), request).sentences
    read = [bert.encoder.encode(line) for side in ("source", "target") for line in corpus.lines("train", side)]
    one_by_one = MaskedObjective.of(MaskedSettings(), request).sentences
    assert [one_by_one.text(index, 0).tokens for index in range(len(one_by_one))] == read
    half = len(read) // 2
    assert half == corpus.size("train") and half > 21
    bodies = [documents.text(index, 0).tokens for index in range(len(documents))]
    assert bodies[:8] == [*read[:7], list(chain(*read[7:14]))]
    assert bodies[8:15] == read[14:21]
    assert read[half] in bodies and list(chain(*read[half + 7 : half + 14])) in bodies, "languages are not mixed"
    assert sum(map(len, bodies)) == sum(map(len, read)), "nothing is lost"


def test_masking_enters_the_fingerprints_that_it_belongs_to(tmp_path: Path) -> None:
    config = written(tmp_path, CONFIG)
    plain, other = (
        by_name(planned(config, *changes))["patt+kd"]
        for changes in ([], ["upstream.objectives=[{kind: masked, share: 0.3}]"])
    )
    assert plain.pretrained is not None and other.pretrained is not None
    assert plain.generator is not None and other.generator is not None
    assert plain.pretrained.fingerprint != other.pretrained.fingerprint
    assert plain.generator.stage.model_dump()["objectives"][0]["share"] == 0.15
    translating = planned(
        config,
        "upstream.objectives=[{kind: translation}]",
        "model={d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
    )
    assert [each["kind"] for each in translating.models.pretrained.stage.model_dump()["objectives"]] == ["translation"]


@pytest.mark.slow
def test_other_ways_of_making_a_model_work_with_a_bert(tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, CONFIG), OTHERS)
    systems = by_name(pipeline)
    sizes = {name: len(Bundle.load(store.path(steps.finetune)).decoder) for name, steps in systems.items()}
    assert sizes == {"without": 150, "single": 200, "task": 200, "independent": 200}
    for name in ("single", "task"):
        model = systems[name].finetune.inputs["model"]
        assert model.stage.stage_name == "assemble"
        made = model.inputs["model"]
        assert made.inputs["encoder"] is made.inputs["decoder"], "a BERT has one vocabulary"
    assert systems["single"].pretrained is None


@pytest.mark.slow
@pytest.mark.parametrize("sides", ["decoder", "encoder, decoder"])
def test_rows_are_distilled_and_stay_attached_in_a_bert(sides: str, tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, CONFIG), *TRAINED, "token_distillation.layer=1", f"sides=[{sides}]")
    for steps in by_name(pipeline).values():
        assert len(Bundle.load(store.path(steps.finetune)).decoder) == 200
    distilled = by_name(pipeline)["distilled"].distilled
    assert distilled is not None
    summary = json.loads((store.path(distilled) / "record.json").read_text())["summary"]
    assert set(summary) == set(sides.split(", ")) and summary["decoder"]["trained"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("pretraining", [False, True])
def test_a_published_bert_takes_the_place_of_pretraining(pretraining: bool, tmp_path: Path) -> None:
    publish_bert(tmp_path / "published", pretraining=pretraining)
    settings = ("upstream.checkpoint=published", "sides=[encoder, decoder]")
    pipeline, store = finish(written(tmp_path, CONFIG), *settings)
    assert pipeline.models.pretrained.stage.stage_name == "checkpoint"
    for steps in pipeline.systems:
        fitted = Bundle.load(store.path(steps.finetune))
        assert len(fitted.decoder) == (150 if steps.system.name == "without" else 200)
        assert fitted.sequence_format(pipeline.experiment.languages).start == fitted.decoder.special["cls"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            ["upstream.objectives=[{kind: translation}]"],
            "the objective translation needs model.family marian or mbart or bart or t5 or m2m_100, not bert",
        ),
        (["model={family: marian}"], "the objective masked needs model.family bert or .*, not marian"),
        (["upstream.vocabulary.kind=unigram"], "needs upstream.vocabulary.kind wordpiece"),
        (["downstream.vocabulary.kind=bpe", OTHERS], "needs downstream.vocabulary.kind wordpiece"),
        ([JOINT], "needs joint_vocabulary.kind wordpiece"),
        (["model.decoder_layers=2"], "model.decoder_layers: unknown field; did you mean 'layers'?"),
        (["model.activation_dropout=0.1"], "model.activation_dropout: unknown field"),
        (["upstream.objectives=[{kind: masked, masked: 0.8, random: 0.3}]"], "add up to more than 1"),
        (
            ["upstream.checkpoint=published", "upstream.objectives=[{kind: translation}]"],
            "a bert model was not pretrained with",
        ),
        (["upstream.checkpoint=marian"], "a marian model was not pretrained with the objective masked"),
        (["upstream.checkpoint=published", "finetune.max_length=60"], "beyond the checkpoint's limit"),
        (
            ["upstream.checkpoint=published", WORD2VEC, "static_embeddings.dimensions=32"],
            "rows have 16 dimensions, static embeddings 32",
        ),
        (["upstream.checkpoint=published", *TRAINED, "token_distillation.layer=9"], "layer 9 is beyond its"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(changes: list[str], complaint: str, tmp_path: Path) -> None:
    config = written(tmp_path, CONFIG)
    publish_bert(tmp_path / "published", pretraining=False)
    Bundle(marian(), english_tokenizer(), german_tokenizer()).save(tmp_path / "marian")
    with pytest.raises(UserError, match=complaint):
        assert planned(config, *changes).report


MBART = (
    "upstream={corpus: upstream, objectives: [{kind: denoising}],"
    " vocabulary: {kind: unigram, size: 150, byte_fallback: false}}",
    "model={family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
    "downstream={corpus: downstream, shared: true, vocabulary: {kind: unigram, size: 200, byte_fallback: false}}",
)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [("downstream.shared=true",), MBART], ids=["bert", "mbart"])
def test_sides_that_shared_a_vocabulary_may_share_their_own(changes: tuple[str, ...], tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, CONFIG), "sides=[encoder, decoder]", *changes)
    systems = by_name(pipeline)
    before = Bundle.load(store.path(systems["without"].finetune)).model
    for name in ("mean", "patt+kd"):
        transfer = systems[name].transfer
        assert transfer is not None
        assert transfer.inputs["vocabulary/encoder"].fingerprint == transfer.inputs["vocabulary/decoder"].fingerprint
        bundle = Bundle.load(store.path(systems[name].finetune))
        assert bundle.encoder.fingerprint == bundle.decoder.fingerprint and len(bundle.decoder) == 200
        assert type(bundle.model) is type(before), "an mBART stays one"
        seen = bundle.decoder.encode_batch(english(20) + german(20))
        assert not any(bundle.decoder.special["unk"] in tokens for tokens in seen), "it is learnt on both languages"


def test_a_shared_vocabulary_takes_two_sides(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"downstream\.shared: a vocabulary for both sides needs"):
        load(written(tmp_path, CONFIG), Experiment, ["downstream.shared=true"])
