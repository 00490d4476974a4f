"""ERNIE: new models and published layouts, their numbers, and what transformers reads after saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForMaskedLM, PreTrainedModel

from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, as_both_sides, count_parameters
from subgraft.modeling.heads import with_head
from subgraft.modeling.load import load_body
from subgraft.modeling.sides import side, stack_states
from toys import SHAPE, cased_tokenizer, one_stack

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "vocab_size": 150,
}


def ernie(tasks: int = 3) -> PreTrainedModel:
    settings = ErnieSettings(**one_stack(SHAPE, "encoder_layers"), task_embeddings=tasks)
    tokenizer = cased_tokenizer()
    return FAMILIES["ernie"].build(settings, tokenizer, tokenizer, 1).eval()  # type: ignore[no-any-return]


def _inputs(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    ids = torch.arange(5, 17).reshape(2, 6)
    types = torch.tensor([[0, 0, 1, 1, 2, 3], [0, 1, 1, 2, 2, 2]])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": types}


@pytest.mark.parametrize("tasks", [0, 3])
def test_what_is_saved_is_what_transformers_reads(tasks: int, tmp_path: Path) -> None:
    model, tokenizer = ernie(tasks), cased_tokenizer()
    Bundle(model, tokenizer, tokenizer).save(tmp_path)
    again = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert type(again) is transformers.ErnieForMaskedLM
    inputs = _inputs(model)
    if tasks:
        inputs["task_type_ids"] = torch.full_like(inputs["input_ids"], 2)
    with torch.no_grad():
        assert torch.equal(again(**inputs).logits, model(**inputs).logits)
        assert torch.equal(Bundle.load(tmp_path).model(**inputs).logits, model(**inputs).logits)
    assert FAMILIES["ernie"].task_embeddings(model.config.to_dict()) == tasks


def test_an_embedding_of_the_task_changes_the_states_and_the_first_is_the_usual_one() -> None:
    model = ernie()
    inputs = _inputs(model)
    ids = inputs["input_ids"]
    with torch.no_grad():
        usual = stack_states(model, layer=None, **inputs)
        first, second = (
            stack_states(model, layer=None, **inputs, task_type_ids=torch.full_like(ids, at)) for at in (0, 1)
        )
    assert torch.equal(usual, first)
    assert not torch.allclose(usual, second, atol=1e-4)


@pytest.mark.parametrize("published", ["ErnieForMaskedLM", "ErnieForPreTraining"])
def test_published_layouts_are_read(published: str, tmp_path: Path) -> None:
    """ERNIE 1 (nghuyong/ernie-1.0-base-zh) and ERNIE 2 (nghuyong/ernie-2.0-base-en, with embeddings of tasks)."""
    torch.manual_seed(3)
    tasks: dict[str, Any] = (
        {"use_task_id": True, "task_type_vocab_size": 4} if published == "ErnieForPreTraining" else {}
    )
    kind = getattr(transformers, published)
    own = kind(transformers.ErnieConfig(**SIZES, type_vocab_size=4, **tasks)).eval()
    own.save_pretrained(tmp_path)
    cased_tokenizer().save(tmp_path)
    bundle = Bundle.load(tmp_path)
    inputs = _inputs(bundle.model)
    with torch.no_grad():
        expected = own(**inputs)
        wanted = expected.logits if published == "ErnieForMaskedLM" else expected.prediction_logits
        read = bundle.model(**inputs)
        assert torch.equal(read[0] if isinstance(read, tuple) else read.get("prediction_logits", read[0]), wanted)
    assert side(bundle.model, "decoder").tied
    headed = with_head(load_body(tmp_path), "tokens", 2, seed=1)
    assert type(headed) is transformers.ErnieForTokenClassification
    assert count_parameters(headed.config.to_dict()).total == headed.num_parameters()


def test_both_sides_of_an_encoder_decoder_are_made_of_it() -> None:
    model = ernie()
    made: Any = FAMILIES["ernie"].assemble(model, cased_tokenizer(), 3)
    known = model.state_dict()
    assert all(torch.equal(tensor, known[f"ernie.{name}"]) for name, tensor in made.encoder.state_dict().items())
    for config in (made.config.to_dict(), as_both_sides(model.config.to_dict())):
        assert count_parameters(config).total == made.num_parameters()
