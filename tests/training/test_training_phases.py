"""Finetuning in two phases: what is trained when, and a resume that ends with the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import FinetuneSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.pipeline.compute.finetune import run
from subgraft.pipeline.stages.training import FinetuneStage, FirstPhase
from subgraft.training.phases import copy_parameters, first_phase_parameters, join_outcomes, train_only
from subgraft.training.progress import CurvePoint, Outcome
from toys import bert2bert, cased_tokenizer, english, english_tokenizer, german, german_tokenizer, marian
from watched import KilledError, Watched

LANGUAGES = Languages(source="en", target="de")
STEPS = 8
TABLE = "model.decoder.embed_tokens.weight"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("inputs")
    for split, count in (("train", 60), ("dev", 3), ("test", 3)):
        for language, lines in (("en", english(count, 3)), ("de", german(count, 3))):
            (place / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    source = CorpusSource(folder=str(place))
    build(source, LANGUAGES, Cleaning(drop_held_out=False), place / "corpus")
    Bundle(marian(), english_tokenizer(), german_tokenizer()).save(place / "model")
    return {"model": place / "model", "corpus": place / "corpus"}


def recipe(share: float) -> FinetuneStage:
    training = FinetuneSettings(
        epochs=9, max_steps=STEPS, batch_size=300, max_length=40, learning_rate=0.01, warmup_steps=2, dev_sentences=3
    )
    phase = FirstPhase(share=share, sides=("decoder",))
    return FinetuneStage(languages=LANGUAGES, training=training, seed=1, first_phase=phase)


def finetune(
    place: Path, inputs: dict[str, Path], share: float, die_at: int | None = None
) -> tuple[dict[str, torch.Tensor], list[int], dict[str, object]]:
    out = place / "out"
    out.mkdir(parents=True, exist_ok=True)
    context = Watched(place / "work", die_at)
    summary = run(recipe(share), inputs, out, context)
    return load_file(out / "model.safetensors"), context.steps, dict(summary)


def test_the_phases_take_as_many_steps_as_one_training(tmp_path: Path, inputs: dict[str, Path]) -> None:
    _, steps, summary = finetune(tmp_path, inputs, 0.4)
    assert steps == list(range(1, STEPS + 1))
    assert summary["steps"] == STEPS


def test_the_first_phase_trains_the_tables_of_its_side_alone(tmp_path: Path, inputs: dict[str, Path]) -> None:
    before = load_file(inputs["model"] / "model.safetensors")
    with pytest.raises(KilledError):
        finetune(tmp_path, inputs, 0.5, die_at=STEPS // 2 + 1)
    checkpoints = tmp_path / "work" / "checkpoints" / "tables"
    tensors = load_file(max(checkpoints.glob("step-*")) / "tensors.safetensors")
    trained = {name for name in tensors if name.startswith("parameter.")}
    assert trained == {f"parameter.model.{TABLE}"}
    assert not torch.equal(tensors[f"parameter.model.{TABLE}"], before[TABLE])


def test_a_bias_that_is_trained_is_trained_with_its_table() -> None:
    frozen = Bundle(bert2bert(1), cased_tokenizer(), cased_tokenizer())
    tables = first_phase_parameters(frozen, ("decoder",))
    train_only(frozen, tables)
    trained = {name for name, parameter in frozen.model.named_parameters() if parameter.requires_grad}
    assert trained == {"decoder.bert.embeddings.word_embeddings.weight", "decoder.cls.predictions.bias"}
    with torch.no_grad():
        side(frozen.model, "decoder").bias.fill_(2.0)  # type: ignore[union-attr]
    other = Bundle(bert2bert(1), cased_tokenizer(), cased_tokenizer())
    copy_parameters(tables, first_phase_parameters(other, ("decoder",)))
    assert (other.model.get_parameter("decoder.cls.predictions.decoder.bias") == 2.0).all()


@pytest.mark.parametrize("die_at", [2, STEPS // 2 + 2])
def test_a_killed_finetuning_ends_with_the_same_weights(die_at: int, tmp_path: Path, inputs: dict[str, Path]) -> None:
    whole, _, expected = finetune(tmp_path / "whole", inputs, 0.5)
    with pytest.raises(KilledError):
        finetune(tmp_path / "killed", inputs, 0.5, die_at)
    resumed, steps, summary = finetune(tmp_path / "killed", inputs, 0.5)
    assert steps == list(range(die_at, STEPS + 1)), "only what came after the last checkpoint is done again"
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert [summary[key] for key in ("steps", "best_step")] == [expected[key] for key in ("steps", "best_step")]


def test_a_curve_goes_on_where_the_first_phase_ended() -> None:
    def curve(*points: tuple[int, float, float]) -> tuple[CurvePoint, ...]:
        return tuple(CurvePoint(*point, {"bleu": 1.0}) for point in points)

    first = Outcome(curve((0, 0.0, 0.0), (4, 0.5, 2.0)), steps=4, best_step=4, seconds=2.5)
    second = Outcome(curve((0, 0.0, 0.0), (6, 0.75, 3.0)), steps=6, best_step=6, seconds=3.5)
    both = join_outcomes(first, second)
    assert both.curve == curve((0, 0.0, 0.0), (4, 0.5, 2.0), (10, 1.25, 5.5))
    assert (both.steps, both.best_step, both.seconds) == (10, 10, 6.0)
    assert join_outcomes(first, Outcome(second.curve, 6, best_step=0, seconds=1.0)).best_step == 4
