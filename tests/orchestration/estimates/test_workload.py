"""How many updates a plan foresees for a pretraining on many languages, against what it then took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from small_experiments import finish_steps, planned, tiny, written
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import PretrainStage
from toys import english, german

TEXTS = "{texts: {en: {files: {train: [a.en]}}, de: {files: {train: [a.de]}}}}"
CONFIG = tiny(
    corpora=f"{{many: {TEXTS}, law: {{folder: downstream}}}}",
    upstream="{corpus: many, languages: all, objectives: [{kind: denoising, block_tokens: 24}], "
    "vocabulary: {size: 120, byte_fallback: false}}",
    downstream="{corpus: law, vocabulary: {size: 90, byte_fallback: false}}",
    model="{family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 24, "
    "max_positions: 256}",
    pretrain="{epochs: 2, batch_size: 240, precision: fp32, max_length: 64}",
    cleaning="{deduplicate: false}",
)


@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_lines_that_come_again_are_counted(tmp_path: Path, unit: str) -> None:
    """As many of each language: nearly twice the lines, and no pair, of which alone lengths were known once."""
    config = written(tmp_path, CONFIG)
    for code, lines in (("en", english(300, 3)), ("de", german(20, 4))):
        (tmp_path / f"a.{code}").write_text("".join(f"{line}\n" for line in lines))
    updates = dict[str, int]()
    for exponent in ("null", "0.0"):
        changes = [f"upstream.language_exponent={exponent}", f"pretrain.batch_unit={unit}"]
        step = cast("Step[PretrainStage]", planned(config, *changes).models.pretrained)
        finish_steps([step], tmp_path)
        store = Store(tmp_path / "home")
        taken = json.loads((store.path(step) / "record.json").read_text())["summary"]["steps"]
        foreseen = workload(store, step).updates
        assert foreseen is not None and foreseen == pytest.approx(taken, rel=0.15)
        updates[exponent] = foreseen
    assert updates["0.0"] > 1.6 * updates["null"]
