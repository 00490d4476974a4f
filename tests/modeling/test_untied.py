"""Decoders get output embeddings of their own: all families, saved and loaded again, by transformers too."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from published import CHECKPOINTS
from subgraft.base.errors import UserError
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.gguf_files import require_layout
from subgraft.modeling.hub import read_config
from subgraft.modeling.sides import side
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.extend import extend
from toys import german, mbart

TIED = (
    "gpt2",
    "Llama-3.2-1B",
    "Qwen2.5-0.5B",
    "Qwen3-0.6B",
    "gemma-2b",
    "gemma-2-2b",
    "gemma-3-1b-pt",
    "opt-125m",
    "opt-350m",
    "bloom-560m",
)


@pytest.mark.parametrize("name", TIED)
def test_an_untied_model_is_the_same_model_and_stays_untied(name: str, tmp_path: Path) -> None:
    (tmp_path / "tied").mkdir()
    CHECKPOINTS[name].publish(tmp_path / "tied")
    bundle = Bundle.load(tmp_path / "tied")
    family, ids = family_of(bundle.model), torch.tensor([bundle.decoder.encode("the house is small")])
    assert side(bundle.model, "decoder").tied
    with torch.no_grad():
        expected = bundle.model(input_ids=ids).logits
    config = family.untied(bundle.model.config.to_dict())
    family.untie(bundle.model)
    bundle.save(tmp_path / "untied")

    loaded = Bundle.load(tmp_path / "untied")
    decoder = side(loaded.model, "decoder")
    assert decoder.output is not None and not decoder.tied
    assert torch.equal(decoder.output.weight, decoder.input.weight)
    assert loaded.model.num_parameters() == family.parameters(config).total
    alone = AutoModelForCausalLM.from_pretrained(tmp_path / "untied", dtype=loaded.model.dtype).eval()
    with torch.no_grad():
        decoder.input.weight[0] += 1  # the output embeddings do not move
        for model in (loaded.model, alone):
            torch.testing.assert_close(model(input_ids=ids).logits, expected, rtol=0, atol=1e-5)
    assert not torch.equal(decoder.output.weight, decoder.input.weight)

    extended = extend(loaded.decoder, german(50, 1), 20)
    transfer(tmp_path / "untied", {"decoder": extended}, Method("mean"), tmp_path / "extended")
    assert not side(Bundle.load(tmp_path / "extended").model, "decoder").tied


@pytest.mark.parametrize(("name", "refused"), [("gemma-2b", True), ("gemma-2-2b", True), ("gemma-3-1b-pt", False)])
def test_llama_cpp_has_no_untied_gemma_before_the_third(name: str, refused: bool, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path)
    family, config = family_of(read_config(tmp_path)), read_config(tmp_path)
    require_layout(family, config, "model")
    with pytest.raises(UserError, match="no output embeddings of their own") if refused else nullcontext():
        require_layout(family, family.untied(config), "model")


@pytest.mark.parametrize(("name", "tied"), [("pythia-70m", False), ("Llama-2-7b", False), ("gpt2", True)])
def test_a_family_says_what_its_configuration_leaves_out(name: str, tied: bool, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path)
    config = {key: value for key, value in read_config(tmp_path).items() if key != "tie_word_embeddings"}
    assert (family_of(config).untied(config) != config) == tied


def test_an_encoder_decoder_is_not_untied() -> None:
    model = copy.deepcopy(mbart())
    with pytest.raises(UserError, match="of a mbart model are not untied: only a decoder's are"):
        family_of(model).untied(model.config.to_dict())
