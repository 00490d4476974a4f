from __future__ import annotations

from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.modeling.inference.translate import BeamCache, Translator
from subgraft.modeling.sides import side, without_dropout
from subgraft.pipeline.compute.models import assemble
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss, Seq2SeqView, token_loss
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, bert, bert2bert, cased_tokenizer, english, generated, german, german_tokenizer, publish_bert

LANGUAGES = Languages(source="en", target="de")
SIDES: tuple[SideName, SideName] = ("encoder", "decoder")


def _examples() -> Translation:
    tokenizer = cased_tokenizer()
    form = family_named(BERT2BERT).sequence_format({}, tokenizer, tokenizer, LANGUAGES)
    return Translation(list(zip(english(30), german(30), strict=True)), tokenizer, tokenizer, form, max_length=40)


def test_both_sides_start_as_the_bert_and_only_the_attention_between_them_is_new() -> None:
    source = bert()
    made = family_named("bert").assemble(source, cased_tokenizer(), seed=3)
    known = source.state_dict()
    encoder, decoder = (made.get_submodule(name).state_dict() for name in SIDES)
    assert all(torch.equal(tensor, known[f"bert.{name}"]) for name, tensor in encoder.items())
    new = {name for name in decoder if name not in known}
    assert new and all(".crossattention." in name for name in new)
    assert all(torch.equal(decoder[name], tensor) for name, tensor in known.items())
    encoder_words, decoder_words = side(made, "encoder").input, side(made, "decoder").input
    assert encoder_words.weight is not decoder_words.weight, "copies that go their own ways"


def test_where_the_bert_lay_is_not_in_the_model_made_from_it(tmp_path: Path) -> None:
    """Equal recipes give equal bytes, in whatever folder they are at work; and so do models made from that."""
    for name in ("here", "elsewhere"):
        publish_bert(tmp_path / name / "bert", pretraining=False)
        assemble(tmp_path / name / "bert", 1).save(tmp_path / name / "made")
        Bundle.load(tmp_path / name / "made").save(tmp_path / name / "again")
    for model in ("made", "again"):
        files = sorted(path.name for path in (tmp_path / "here" / model).iterdir())
        assert {"config.json", "model.safetensors", "generation_config.json"} <= set(files)
        for file in files:
            assert (tmp_path / "here" / model / file).read_bytes() == (
                tmp_path / "elsewhere" / model / file
            ).read_bytes(), f"{model}/{file}"


def test_new_weights_follow_the_seed_and_nothing_else() -> None:
    def new(seed: int) -> torch.Tensor:
        made = family_named("bert").assemble(bert(), cased_tokenizer(), seed)
        return made.get_parameter("decoder.bert.encoder.layer.0.crossattention.self.query.weight")

    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first = new(1)
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(first, new(1)) and not torch.equal(first, new(2))
    assert first.std().item() == pytest.approx(0.02, rel=0.25)


def test_the_decoder_sees_no_token_before_its_turn_and_the_encoder_sees_all() -> None:
    made = bert2bert()
    source, target = torch.tensor([[2, 30, 31, 3]]), torch.tensor([[2, 40, 41, 42]])
    other = target.clone()
    other[0, 3] = 50
    first, second = (made(source, decoder_input_ids=ids).logits for ids in (target, other))
    assert torch.equal(first[:, :3], second[:, :3])
    assert not torch.equal(first[:, 3], second[:, 3])
    encoder = made.get_submodule("encoder")
    memory, changed = (encoder(ids).last_hidden_state for ids in (source, torch.tensor([[2, 30, 32, 3]])))
    assert not torch.equal(memory[:, 0], changed[:, 0])


def test_sources_stand_between_special_tokens_and_targets_start_with_the_first() -> None:
    tokenizer, example = cased_tokenizer(), _examples().example(0, 0)
    cls, sep = tokenizer.special["cls"], tokenizer.special["sep"]
    assert example.source == [cls, *tokenizer.encode(english(30)[0]), sep]
    assert example.target == [*tokenizer.encode(german(30)[0]), sep]
    assert (example.start, example.source_begins, example.source_body) == (cls, 1, len(example.source) - 2)
    with pytest.raises(UserError, match="beginning of a sentence"):
        assert "bos" in german_tokenizer().special
        unbegun = copy(german_tokenizer())
        unbegun.special = {role: token for role, token in unbegun.special.items() if role != "bos"}
        family_named(BERT2BERT).sequence_format({}, unbegun, tokenizer, LANGUAGES)


def test_the_loss_per_token_is_the_models_own() -> None:
    made, tokenizer = bert2bert(), cased_tokenizer()
    padding = tokenizer.special["pad"]
    batch = Seq2SeqData(_examples(), padding, padding).batch(np.arange(6), 0)
    logits = made(batch.input_ids, batch.attention_mask, batch.decoder_input_ids).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum")
    torch.testing.assert_close(token_loss(made, batch), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_training_reaches_every_weight(implementation: str) -> None:
    made, padding = bert2bert().train(), cased_tokenizer().special["pad"]
    made.set_attn_implementation(implementation)
    made.gradient_checkpointing_enable({"use_reentrant": False})
    Seq2SeqLoss(made)(Seq2SeqData(_examples(), padding, padding).batch(np.arange(6), 0))["loss"].backward()
    assert [name for name, parameter in made.named_parameters() if parameter.grad is None] == []


def test_a_frozen_one_has_no_dropout() -> None:
    made = without_dropout(bert2bert().train())
    inputs = {"input_ids": torch.tensor([[2, 30, 3]]), "decoder_input_ids": torch.tensor([[2, 40]])}
    assert torch.equal(made(**inputs).logits, made(**inputs).logits)


@pytest.mark.parametrize("beam", [1, 3])
def test_it_translates_by_beam_search_and_knows_how_sure_it_was(beam: int) -> None:
    made, tokenizer = bert2bert(), cased_tokenizer()
    with torch.no_grad():  # an untrained model hardly looks at its source
        for name, parameter in made.named_parameters():
            if "crossattention" in name or name.startswith("encoder."):
                parameter.mul_(8)
    bundle = Bundle(made, tokenizer, tokenizer)
    translate = Translator(
        made,
        tokenizer,
        tokenizer,
        bundle.sequence_format(LANGUAGES),
        beam=beam,
        max_length_ratio=1.0,
        max_positions=bundle.max_positions,
    )
    texts = [*english(5), " ".join(english(30))]
    outputs = translate.with_probabilities(texts, batch_size=4)
    assert [output.text for output in outputs] == translate(texts, batch_size=3)
    assert all(len(output.tokens) < SHAPE["max_positions"] for output in outputs)
    body = outputs[0].tokens[: len(outputs[0].probabilities)]
    source = torch.tensor([[2, *tokenizer.encode(texts[0])[:38], 3]])
    logits = made(source, decoder_input_ids=torch.tensor([[2, *body[:-1]]])).logits[0].log_softmax(-1)
    expected = logits[torch.arange(len(body)), torch.tensor(body)].exp()
    torch.testing.assert_close(torch.tensor(outputs[0].probabilities), expected, rtol=1e-4, atol=1e-5)


def test_sharing_the_source_between_beams_changes_no_output() -> None:
    made = bert2bert()
    sources = torch.tensor([[2, 30, 31, 32, 3], [2, 40, 41, 3, 0]])
    inputs = {"input_ids": sources, "attention_mask": (sources != 0).long(), "num_beams": 3, "max_length": 15}
    assert torch.equal(generated(made, **inputs), generated(made, **inputs, past_key_values=BeamCache()))


@pytest.mark.parametrize("name", SIDES)
def test_a_generator_can_be_trained_on_it_too(name: SideName) -> None:
    """Of a bert2bert that was itself trained to translate: states stand behind the [CLS] of a source."""
    tokenizer = cased_tokenizer()
    padding = (tokenizer.special["pad"], tokenizer.special["pad"])
    made, generator = bert2bert(), Generator("patt", SHAPE["d_model"])
    view = Seq2SeqView(_examples(), name, padding)
    loss = GeneratorLoss(made, generator, view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    batch = Simulator(view, tokenizer, settings, 10, 1).batch(np.arange(6), 0)
    cls, sep = tokenizer.special["cls"], tokenizer.special["sep"]
    assert isinstance(batch.original, Seq2SeqBatch) and isinstance(batch.resegmented, Seq2SeqBatch)
    assert (batch.resegmented.input_ids[:, 0] == cls).all()
    if name == "encoder":
        spans, ids = batch.spans.original, batch.original.input_ids
        assert not {cls, sep} & set(ids[spans[:, 0], spans[:, 1]].tolist())
    sums = loss(batch)
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
    still = Simulator(view, tokenizer, ResegmentationSettings(merge_rate=0, split_rate=0), 10, 1)
    assert loss(still.batch(np.arange(4), 0))["distillation"].item() == pytest.approx(0.0, abs=1e-3)


def test_a_bert_without_padding_or_ends_is_refused() -> None:
    model = bert()
    assert isinstance(model, BertForMaskedLM)
    tokenizer = copy(german_tokenizer())
    tokenizer.special = {role: token for role, token in tokenizer.special.items() if role in ("pad", "unk")}
    with pytest.raises(UserError, match="no special token for: bos, eos"):
        family_named("bert").assemble(model, tokenizer, 1)
