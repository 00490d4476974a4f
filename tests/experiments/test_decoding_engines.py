"""Experiments whose texts CTranslate2 writes: the same results, and the same steps where it has no such models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_classes import classed
from small_experiments import TINY, finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.preflight import require_libraries
from subgraft.experiments.steps.decoding_engine import left_to_transformers
from subgraft.orchestration.store.step import in_order, made_by
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.training import FinetuneStage, PretrainStage
from subgraft.training.progress import CURVE

FAST = ("evaluation.engine=ctranslate2", "pretrain.dev_engine=ctranslate2", "finetune.dev_engine=ctranslate2")
SLOW = tuple(change.replace("ctranslate2", "transformers") for change in FAST)
LLAMA_CPP = "evaluation.engine=llamacpp"
SHORT = ("pretrain.epochs=8", "evaluation.beam=2", "evaluation.by_token_count=false")
MASKED = (
    "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
    "upstream.objectives=[{kind: masked}]",
    "upstream.vocabulary={kind: wordpiece, size: 100}",
    "downstream.vocabulary={kind: wordpiece, size: 120}",
)


def planned(place: Path, *changes: str) -> Pipeline:
    return Pipeline(load(place / "config.yaml", Experiment, changes), place)


@pytest.mark.slow
def test_both_engines_have_the_same_results(tmp_path: Path) -> None:
    made = {}
    for name, changes in (("transformers", SLOW), ("ctranslate2", ())):
        folder = tmp_path / name
        folder.mkdir()
        made[name] = finish(written(folder, TINY), *SHORT, *changes)
    (slow, slow_store), (fast, fast_store) = made["transformers"], made["ctranslate2"]
    for one, other in zip(slow.systems, fast.systems, strict=True):
        message, untold = fast_store.find(other.finetune), slow_store.find(one.finetune)
        assert message is not None and message.summary["dev_engine"] == "ctranslate2"
        assert untold is not None and "dev_engine" not in untold.summary
        for stage in ("pretrained", "finetune"):
            curves = [
                json.loads((store.path(getattr(steps, stage)) / CURVE).read_text())
                for steps, store in ((one, slow_store), (other, fast_store))
            ]
            assert [point["values"]["bleu"] for point in curves[0]] == pytest.approx(
                [point["values"]["bleu"] for point in curves[1]], abs=0.1
            )
        texts = [
            (store.path(steps.evaluate) / "hypotheses.txt").read_text()
            for steps, store in ((one, slow_store), (other, fast_store))
        ]
        assert texts[0] == texts[1] and texts[0].strip()
        result = json.loads((fast_store.path(other.evaluate) / "evaluation.json").read_text())
        expected = json.loads((slow_store.path(one.evaluate) / "evaluation.json").read_text())
        assert {name: score["value"] for name, score in result["scores"].items()} == {
            name: score["value"] for name, score in expected["scores"].items()
        }
        assert result["cut_outputs"] == expected["cut_outputs"]
        assert result["calibration"]["error"] == pytest.approx(expected["calibration"]["error"], abs=1e-4)
        assert "searched_again" in result and "searched_again" not in expected
        assert one.evaluate.fingerprint != other.evaluate.fingerprint
        record = fast_store.find(other.evaluate)
        assert record is not None and record.recipe["evaluation"]["engine"] == "ctranslate2"
    assert left_to_transformers(True, in_order([fast.report])) == []


def test_evaluations_are_those_of_ctranslate2_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, TINY)

    def evaluations(*changes: str) -> list[str]:
        return [step.fingerprint for step in made_by(EvaluateStage, in_order([planned(tmp_path, *changes).report]))]

    assert evaluations() == evaluations(FAST[0]) != evaluations(SLOW[0])
    monkeypatch.setattr("subgraft.config.settings_base.find_spec", lambda name: None)
    assert evaluations() == evaluations(SLOW[0])


def test_models_that_ctranslate2_has_not_are_left_to_transformers(tmp_path: Path) -> None:
    written(tmp_path, TINY)
    plain, asked = planned(tmp_path, *MASKED, *SLOW), planned(tmp_path, *MASKED, *FAST)
    made = [
        {step.fingerprint for step in in_order([each.report]) if step is not each.report} for each in (plain, asked)
    ]
    assert made[0] == made[1], "only the report, which shows all settings, is another"
    (line,) = left_to_transformers(True, in_order([asked.report]))
    assert "evaluate plain seed 1" in line and "evaluate mean seed 1" in line
    assert left_to_transformers(False, in_order([plain.report])) == []


def test_dev_scores_that_are_of_no_translations_or_of_adapters_are_left_to_transformers(tmp_path: Path) -> None:
    written(tmp_path, TINY)
    asked = in_order([planned(tmp_path, *FAST, "finetune.train=adapters").report])
    assert {step.stage.training.dev_engine for step in made_by(FinetuneStage, asked)} == {"transformers"}
    assert {step.stage.training.dev_engine for step in made_by(PretrainStage, asked)} == {"ctranslate2"}
    assert {step.stage.evaluation.engine for step in made_by(EvaluateStage, asked)} == {"ctranslate2"}
    changes = (*FAST, "model.family=mbart", "upstream.objectives=[{kind: denoising}]")
    denoised = in_order([planned(tmp_path, *changes).report])
    assert {step.stage.training.dev_engine for step in made_by(PretrainStage, denoised)} == {"transformers"}
    assert {step.stage.training.dev_engine for step in made_by(FinetuneStage, denoised)} == {"ctranslate2"}


def test_all_of_a_comparison_with_a_source_is_left_to_transformers(tmp_path: Path) -> None:
    """Also a model without a source, which CTranslate2 has: its text is drawn next to that of the others."""
    config = classed(tmp_path)
    pipeline = Pipeline(load(config, Experiment), tmp_path)
    assert {step.stage.evaluation.engine for step in made_by(EvaluateStage, in_order([pipeline.report]))} == {
        "transformers"
    }


def test_where_it_is_not_installed_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, TINY)
    monkeypatch.setattr("subgraft.experiments.preflight.find_spec", lambda name: None)
    require_libraries(planned(tmp_path).experiment)
    for change in FAST:
        with pytest.raises(UserError, match="CTranslate2 is not installed") as refused:
            require_libraries(planned(tmp_path, change).experiment)
        assert refused.value.where == change.partition("=")[0]
    (tmp_path / "config.yaml").write_text(tiny(**CONTINUATION))
    with pytest.raises(UserError, match=r"llama\.cpp is not installed") as refused:
        require_libraries(planned(tmp_path, LLAMA_CPP).experiment)
    assert refused.value.where == "evaluation.engine" and "subgraft[llamacpp]" in str(refused.value.hint)


CONTINUATION = {
    "task": "continuation",
    "languages": "{source: de, target: de}",
    "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
    "model": "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}",
    "pretrain": "{epochs: 4, batch_size: 500, precision: fp32, dev_sentences: 4}",
    "systems": "[{name: plain, vocabulary: upstream}]",
}


def test_continuations_are_the_same_too_and_timed_as_they_are_made(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    config, result = tiny(**CONTINUATION), []
    timed = "evaluation.speed_measured=in-translation"
    engines = {"transformers": SLOW[:1], "ctranslate2": (timed,), "llamacpp": (LLAMA_CPP, timed)}
    for name, changes in engines.items():
        folder = tmp_path / name
        folder.mkdir()
        pipeline, store = finish(written(folder, config), *changes)
        evaluation = store.path(pipeline.systems[0].evaluate)
        measured = json.loads((evaluation / "evaluation.json").read_text())
        assert measured["speed"]["sentences"] == 2 and measured["speed"]["median"] > 0
        assert ("searched_again" in measured) == (name == "ctranslate2")
        result.append(((evaluation / "continuations.txt").read_text(), measured["bits_per_character"]))
    assert result[0] == result[1] == result[2]


def test_llama_cpp_is_refused_before_anything_runs_where_it_cannot_decode(tmp_path: Path) -> None:
    written(tmp_path, TINY)
    with pytest.raises(UserError, match=r"evaluation.engine llamacpp continues text, .*does not do translation"):
        planned(tmp_path, LLAMA_CPP)
    (tmp_path / "config.yaml").write_text(tiny(**CONTINUATION))
    with pytest.raises(UserError, match="no beam search: write `beam: 1` too"):
        planned(tmp_path, LLAMA_CPP, "evaluation.beam=4")
    planned(tmp_path, LLAMA_CPP)
    conditional = ("task=class-conditional", "systems=[{name: prefix, vocabulary: upstream, conditioning: prepend}]")
    with pytest.raises(UserError, match="llamacpp does not write for a source"):
        planned(tmp_path, LLAMA_CPP, *conditional)
