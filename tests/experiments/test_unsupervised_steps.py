"""Translation learnt from text of two languages alone: rounds, the tokens that are generated, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from killed_steps import made_again_after_a_kill
from small_experiments import finish, planned, tiny
from small_experiments import written as written_experiment
from subgraft.base.errors import UserError
from subgraft.data.synthetic_pairs import lines_in_turn
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.store.step import Step, in_order, made_by
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.corpora import BackTranslatedStage
from subgraft.pipeline.stages.training import UnsupervisedStage
from subgraft.training.chunked_translation import Search
from toy_steps import record_of
from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer

SECTIONS = {
    "downstream": "{corpus: downstream, text: {source: [read.txt], target: [more.txt]},"
    " vocabulary: {size: 75, byte_fallback: false}}",
    "upstream": "{corpus: upstream, objectives: [{kind: denoising}], vocabulary: {size: 70, byte_fallback: false}}",
    "model": "{family: mbart, d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
    "systems": "[{name: alone, vocabulary: upstream, unsupervised: true}]",
    "unsupervised": "{rounds: 2, updates: 3, sentences: 8, constrained_rounds: 1, max_length_ratio: 1.0}",
    "finetune": "{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2, warmup_steps: 2}",
}

# So long that it writes something.
PRETRAINED = (
    "pretrain.epochs=null",
    "pretrain.max_steps=250",
    "pretrain.learning_rate=0.01",
    "pretrain.warmup_steps=20",
)


def written(place: Path, **sections: str) -> Path:
    config = written_experiment(place, tiny(**SECTIONS | sections))
    texts = {"more.txt": german(12, 9), "read.txt": english(12, 8)}
    for name, lines in texts.items():
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return config


def rounds_of(step: Step) -> list[Step[UnsupervisedStage]]:
    return made_by(UnsupervisedStage, in_order([step]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    place = tmp_path_factory.mktemp("unsupervised")
    return finish(written(place), *PRETRAINED)


def other_side(text: BackTranslatedStage) -> str:
    return "source" if text.side == "target" else "target"


@pytest.mark.slow
def test_a_round_translates_both_ways_and_trains_on_both(finished: tuple[Pipeline, Store]) -> None:
    result, store = finished
    (system,) = result.systems
    first, last = rounds_of(system.finetune)
    assert last is system.finetune and first.inputs["model"] is result.models.pretrained
    assert {first, last} & set(system.synthetic_data) == {first}, "earlier rounds are billed as made text"
    for step, model in ((first, result.models.pretrained), (last, first)):
        assert step.inputs["model"] is model and record_of(store, step).summary["steps"] == 3
        assert workload(store, step).updates == 3
        for role, side, way in (("synthetic", "target", ("en", "de")), ("synthetic/reversed", "source", ("de", "en"))):
            text = step.input(role, BackTranslatedStage)
            record, pairs = record_of(store, text), Corpus.open(store.path(text))
            assert text.inputs["model"] is model and record.inputs["model"]["fingerprint"] == model.fingerprint
            assert record.summary["model"] == model.name and text.stage.side == side
            assert pairs.languages == way and 0 < pairs.size("train") <= 8
            whole = list(Corpus.open(store.path(text.inputs["text"])).lines("train", side))
            assert {target for _, target in pairs.pairs("train")} <= set(whole)
    report = (store.path(result.report) / "report.md").read_text()
    assert "alone" in report and "Outputs in the language de: alone " in report
    shares = record_of(store, system.evaluate).summary["output_language"]
    assert set(shares) <= {"en", "de", "und"} and sum(shares.values()) == pytest.approx(1)


@pytest.mark.slow
def test_constrained_rounds_write_no_token_that_the_text_of_the_language_lacks(
    finished: tuple[Pipeline, Store],
) -> None:
    result, store = finished
    first, last = rounds_of(result.systems[0].finetune)
    tokenizer = Bundle.load(store.path(result.models.pretrained)).decoder
    for step, constrained in ((first, True), (last, False)):
        for role in ("synthetic", "synthetic/reversed"):
            text = step.input(role, BackTranslatedStage)
            language = Corpus.open(store.path(text.inputs["text"])).lines("train", other_side(text.stage))
            own = {token for line in language for token in tokenizer.encode(line)}
            bundle = Bundle.load(store.path(text.inputs["model"]))
            search = Search(1, 1.0, tokens=frozenset(own) if constrained else None)
            lines = [target for _, target in Corpus.open(store.path(text)).pairs("train")]
            written = search.translator(bundle, text.stage.languages.reversed).with_probabilities(lines)
            # They are what the artifact has, and only the constrained ones are of the language alone.
            assert [output.text for output in written] == [
                made for made, _ in Corpus.open(store.path(text)).pairs("train")
            ]
            if constrained:
                assert {token for output in written for token in output.tokens} <= own
                assert len(own) < len(tokenizer) - 10 and record_of(store, text).summary["generated_tokens"] == len(own)
            else:
                assert text.stage.min_count is None and text.stage.engine == "ctranslate2"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["text", "model"])
def test_a_killed_round_carries_on_to_the_same_result(
    finished: tuple[Pipeline, Store], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, store = finished
    last = result.systems[0].finetune
    step = last.inputs["synthetic"] if role == "text" else last
    before, after = made_again_after_a_kill(step, store.path(step).parents[2], 1, monkeypatch)
    assert before and before == after


def test_no_step_trains_on_the_pairs(finished: tuple[Pipeline, Store]) -> None:
    """What reads the task's corpus reads dev for scores, or removes its lines from text."""
    result, _ = finished
    corpus = result.inputs.downstream_corpus
    readers = [step for step in in_order([result.systems[0].finetune]) if corpus in step.inputs.values()]
    assert {step.stage.stage_name for step in readers} == {"text", "unsupervised"}


def test_every_line_has_its_turn_before_any_comes_again() -> None:
    parts = [lines_in_turn(10, 4, number, seed=3) for number in range(5)]
    assert [len(part) for part in parts[:2]] == [4, 4]
    assert sorted({*parts[0], *parts[1]}) == sorted([*parts[0], *parts[1]]) and {*parts[2]} > {*range(10)} - {
        *parts[0],
        *parts[1],
    }
    assert lines_in_turn(10, 4, 1, seed=3).tolist() == parts[1].tolist() != lines_in_turn(10, 4, 1, seed=4).tolist()
    assert lines_in_turn(3, 8, 2, seed=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["downstream.text={target: [more.txt]}"], "give downstream.text.source and .target"),
        (["model={d_model: 16, attention_heads: 2}", "upstream.objectives=[{kind: translation}]"], "mbart, not marian"),
        (["finetune.warmup_steps=10"], "finetune.warmup_steps 10 is more than the 3 updates of a round"),
        (["unsupervised.constrained_rounds=3"], "constrained_rounds 3 is more than the 2 rounds"),
        (["systems=[{name: a, initialiser: mean, unsupervised: true}]"], "it needs downstream.shared: true"),
        (["systems=[{name: a, vocabulary: upstream, unsupervised: true, text: copied}]"], "be combined with text"),
        (["systems=[{name: a, pretraining: none, unsupervised: true}]", "sides=[encoder, decoder]",
          "downstream.shared=true"], "`pretraining: none` is not"),
    ],
)  # fmt: skip
def test_what_such_a_system_needs_is_asked_for(tmp_path: Path, changes: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(written(tmp_path), *changes)


def test_a_checkpoint_that_writes_one_language_is_refused(tmp_path: Path) -> None:
    (tmp_path / "marian").mkdir()
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **SHAPE)
    Bundle(model, english_tokenizer(), german_tokenizer()).save(tmp_path / "marian")
    changes = ("upstream={checkpoint: marian}", "finetune.max_length=30")
    with pytest.raises(UserError, match="a marian model without language codes writes one language only"):
        _ = planned(written(tmp_path), *changes).systems
