"""The settings that a model may have depend on its family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.models import (
    SETTINGS_OF_FAMILY,
    BertSettings,
    LlamaSettings,
    MarianSettings,
    ModelSettings,
    families_for,
)

SIZES = "d_model: 16, attention_heads: 2, ffn_dim: 16"
MASKED = " or ".join(families_for("masked"))


def loaded(repository: Path, *changes: str) -> Experiment:
    return load(repository / "configs" / "table3-bert.yaml", Experiment, changes)


def test_a_preset_gives_each_family_what_it_has_settings_for(repository: Path) -> None:
    bert = loaded(repository).model
    assert isinstance(bert, BertSettings) and (bert.layers, bert.d_model) == (3, 256)
    default = loaded(
        repository, "model={}", "upstream={corpus: everyday, vocabulary: {kind: unigram, size: 900}}"
    ).model
    assert isinstance(default, MarianSettings) and (default.encoder_layers, default.decoder_layers) == (3, 2)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (
            "{family: brt}",
            f"or '{tuple(SETTINGS_OF_FAMILY)[-1]}', found \"brt\"; did you mean 'bert'?",
        ),
        ("{family: bert, encoder_layers: 3}", "model.encoder_layers: unknown field; did you mean 'layers'?"),
        ("{family: bert, activation_dropout: 0.1}", "model.activation_dropout: unknown field"),
        (
            "{family: bert, tied: true}",
            "ffn_dim, attention_dropout, max_positions, layers, family, dropout",
        ),
        (f"{{family: llama, {SIZES}, key_value_heads: 3}}", "attention_heads 2 is not divisible by key_value_heads 3"),
        ("{family: llama, d_model: 18, attention_heads: 6}", "must be even"),
        ("{family: bert, attention_heads: 3}", "d_model 256 is not divisible by attention_heads 3"),
        ("{family: gpt2}", f"the objective masked needs model.family {MASKED}, not gpt2"),
        ("{family: marian}", f"the objective masked needs model.family {MASKED}, not marian"),
    ],
)
def test_mistakes_are_reported_with_the_settings_of_the_family(repository: Path, model: str, complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        loaded(repository, f"model={model}")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("settings", [MarianSettings, BertSettings, LlamaSettings])
def test_a_recipe_reads_what_it_wrote(settings: Any) -> None:
    sizes = {"d_model": 16, "attention_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1, "layers": 1}
    made = settings(**{name: value for name, value in sizes.items() if name in settings.model_fields})
    assert TypeAdapter(ModelSettings).validate_python(made.model_dump(mode="json")) == made
