"""Models with a head for next sentences: added, saved, loaded by transformers, and used for all that a BERT is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForPreTraining, BertForPreTraining, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import FAMILIES, count_parameters, with_next_sentence
from subgraft.modeling.heads import with_head
from subgraft.modeling.load import load_body, load_model
from subgraft.modeling.next_sentence import next_sentence_parameters
from subgraft.modeling.next_sentence import with_next_sentence as converted
from toys import SHAPE, bert, cased_tokenizer, german_tokenizer, gpt2, one_stack, publish_bert


def both_heads(seed: int = 5) -> PreTrainedModel:
    return converted(bert(), seed)


def logits(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = {"input_ids": torch.tensor([[2, 30, 31, 3, 40, 3]]), "token_type_ids": torch.tensor([[0, 0, 0, 0, 1, 1]])}
    with torch.no_grad():
        output = model.eval()(**inputs)
    return output.prediction_logits, output.seq_relationship_logits


def same(first: PreTrainedModel, second: PreTrainedModel) -> bool:
    return all(torch.equal(one, two) for one, two in zip(logits(first), logits(second), strict=True))


def test_the_new_head_depends_on_the_seed_and_the_rest_stays() -> None:
    plain, made = bert(), both_heads()
    assert type(made) is BertForPreTraining and not made.training
    for name, tensor in plain.state_dict().items():
        assert torch.equal(made.state_dict()[name], tensor)
    assert same(made, both_heads()) and not same(made, both_heads(seed=6))
    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
    own = {id(each) for each in next_sentence_parameters(made)}
    assert len(own) == 4 and own == {
        id(each) for name, each in made.named_parameters() if "pooler" in name or "seq_relationship" in name
    }
    assert converted(made, seed=9) is made, "a head that is there stays"
    assert next_sentence_parameters(plain) == []


def test_it_is_saved_and_loaded_with_both_heads(tmp_path: Path) -> None:
    made, tokenizer = both_heads(), cased_tokenizer()
    Bundle(made, tokenizer, tokenizer).save(tmp_path)
    again = Bundle.load(tmp_path).model
    assert type(again) is BertForPreTraining and same(made, again)
    assert same(made, AutoModelForPreTraining.from_pretrained(tmp_path))


def test_the_export_for_transformers_names_the_class_of_both_heads(tmp_path: Path) -> None:
    tokenizer = cased_tokenizer()
    Bundle(both_heads(), tokenizer, tokenizer).save(tmp_path / "model")
    (tmp_path / "exported").mkdir()
    loading = export_transformers(tmp_path / "model", tmp_path / "exported")
    assert loading.model_class == "AutoModelForPreTraining"
    assert same(both_heads(), AutoModelForPreTraining.from_pretrained(tmp_path / "exported"))


def test_a_published_checkpoint_keeps_both_heads(tmp_path: Path) -> None:
    published = publish_bert(tmp_path, pretraining=True)
    loaded = load_model(tmp_path)
    assert type(loaded) is BertForPreTraining and same(published, loaded)


def test_a_checkpoint_that_names_another_class_keeps_them_where_they_are_wanted(tmp_path: Path) -> None:
    """bert-base-uncased has the weights of both heads, and BertForMaskedLM in config.json."""
    published = publish_bert(tmp_path, pretraining=True)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("BertForPreTraining", "BertForMaskedLM"))
    assert type(load_model(tmp_path)).__name__ == "BertForMaskedLM"
    assert same(published, load_model(tmp_path, next_sentence=True))
    assert same(published, Bundle.load(tmp_path, next_sentence=True).model)
    publish_bert(tmp_path / "without", pretraining=False)
    assert type(load_model(tmp_path / "without", next_sentence=True)).__name__ == "BertForMaskedLM"


def test_a_checkpoint_that_lacks_the_head_it_names_is_one_of_masked_tokens(tmp_path: Path) -> None:
    publish_bert(tmp_path, pretraining=False)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("BertForMaskedLM", "BertForPreTraining"))
    loaded = load_model(tmp_path)
    assert type(loaded).__name__ == "BertForMaskedLM" and loaded.config.architectures == ["BertForMaskedLM"]


def test_a_vocabulary_is_transferred_and_the_head_stays(tmp_path: Path) -> None:
    old, new = cased_tokenizer(), german_tokenizer(120, "wordpiece")
    pooler = both_heads().state_dict()["bert.pooler.dense.weight"]
    made = transplant(both_heads(), {"decoder": old, "encoder": old}, {"decoder": new, "encoder": new}, Method("mean"))
    Bundle(made.model, new, new).save(tmp_path)
    assert type(made.model) is BertForPreTraining and logits(made.model)[0].shape[-1] == 120
    weights = load_file(tmp_path / "model.safetensors")
    assert torch.equal(weights["bert.pooler.dense.weight"], pooler) and "cls.seq_relationship.weight" in weights
    assert same(made.model, AutoModelForPreTraining.from_pretrained(tmp_path))


def test_an_encoder_decoder_is_assembled_without_it() -> None:
    tokenizer, made = cased_tokenizer(), both_heads()
    assembled = FAMILIES["bert"].assemble(made, tokenizer, 1)
    plain = FAMILIES["bert"].assemble(bert(), tokenizer, 1)
    states = plain.state_dict()
    assert assembled.state_dict().keys() == states.keys()
    assert all(torch.equal(each, states[name]) for name, each in assembled.state_dict().items())


def test_a_head_for_labels_takes_the_pretrained_pooler(tmp_path: Path) -> None:
    made, tokenizer = both_heads(), cased_tokenizer()
    pooler = made.state_dict()["bert.pooler.dense.weight"].clone()
    Bundle(made, tokenizer, tokenizer).save(tmp_path)
    for body in (load_body(tmp_path), load_model(tmp_path)):
        headed = with_head(body, "sequence", 3, seed=1)
        assert type(headed).__name__ == "BertForSequenceClassification"
        assert torch.equal(headed.state_dict()["bert.pooler.dense.weight"], pooler)


@pytest.mark.parametrize("tied", [True, False])
def test_its_parameters_are_counted(tied: bool) -> None:
    before = bert(tied=tied).config.to_dict()
    made = converted(bert(tied=tied), 1)
    total = sum(parameter.numel() for parameter in made.parameters())
    assert count_parameters(with_next_sentence(before)).total == total
    assert count_parameters(made.config.to_dict()).total == total


def test_ernie_has_one_too_and_others_none() -> None:
    tokenizer = cased_tokenizer()
    ernie = FAMILIES["ernie"].build(ErnieSettings(**one_stack(SHAPE, "encoder_layers")), tokenizer, tokenizer, 1)
    made = converted(ernie, 1)
    assert type(made).__name__ == "ErnieForPreTraining" and len(next_sentence_parameters(made)) == 4
    assert count_parameters(made.config.to_dict()).total == sum(each.numel() for each in made.parameters())

    with pytest.raises(UserError, match="no gpt2 model that predicts next sentences"):
        converted(gpt2(), 1)
