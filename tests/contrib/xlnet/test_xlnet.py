"""XLNets: built, counted, loaded by transformers, fitted with vocabularies, under heads for tasks with labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.config.settings_base import HeadKind
from subgraft.contrib.xlnet.settings import XLNetSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import count_parameters, family_of
from subgraft.modeling.heads import with_head
from subgraft.modeling.load import load_model
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.engine import recompute_activations
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.sequences import Classification
from subgraft.training.understanding.task import one_row_each
from toys import english, fitted_tokenizer, german, multilingual_tokenizer, xlnet

SPECIAL = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")


def publish(directory: Path, kind: str = "XLNetLMHeadModel", **entries: Any) -> Any:
    """A directory with the files of xlnet-base-cased; the model that lies in it."""
    directory.mkdir(parents=True, exist_ok=True)
    learnt = learn(english(), kind="unigram", size=90)
    pieces = [(piece, -float(i)) for i, piece in enumerate(learnt.pieces) if i not in learnt.special_ids]
    tokenizer = transformers.XLNetTokenizer(vocab=[*((piece, 0.0) for piece in SPECIAL), *pieces], unk_id=0)
    tokenizer.backend_tokenizer.save(str(directory / "tokenizer.json"))
    config = transformers.XLNetConfig(
        vocab_size=len(tokenizer), d_model=16, n_layer=2, n_head=2, d_inner=24, mem_len=None, **entries
    )
    torch.manual_seed(3)
    model: Any = getattr(transformers, kind)(config).eval()
    model.save_pretrained(directory)
    return model


def logits(model: Any, ids: list[int]) -> Tensor:
    with torch.no_grad():
        made: Tensor = model(torch.tensor([ids])).logits
    return made


def test_a_published_checkpoint_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    published = publish(tmp_path)
    bundle, theirs = Bundle.load(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    layout = bundle.input_layout()
    for one, other in zip(english(20, 5), german(20, 5), strict=True):
        first, second = bundle.encoder.encode(one), bundle.encoder.encode(other)
        for laid, texts in ((layout.single(first), (one,)), (layout.pair(first, second), (one, other))):
            wanted = theirs(*texts, return_token_type_ids=True)
            assert laid.ids == wanted["input_ids"] and laid.types == wanted["token_type_ids"]
            assert torch.equal(logits(bundle.model, laid.ids), logits(published, laid.ids))
    assert bundle.encoder.special["cls"] == 3 and bundle.max_positions > 8000


@pytest.mark.parametrize("entries", [{"attn_type": "uni"}, {"bi_data": True}])
def test_an_attention_of_another_kind_is_refused(entries: dict[str, Any], tmp_path: Path) -> None:
    publish(tmp_path, **entries)
    with pytest.raises(UserError, match="attn_type uni or bi_data"):
        load_model(tmp_path)


def test_a_built_model_is_loaded_by_transformers_with_equal_logits(tmp_path: Path) -> None:
    tokenizer = multilingual_tokenizer()
    Bundle(xlnet(), tokenizer, tokenizer).save(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__ == "XLNetLMHeadModel"
    for ids in tokenizer.encode_batch(english(5)):
        assert torch.equal(logits(theirs, ids), logits(xlnet(), ids))
        assert torch.equal(logits(load_model(tmp_path), ids), logits(xlnet(), ids))


def test_settings_that_no_xlnet_has_are_refused() -> None:
    shape: dict[str, Any] = {"d_model": 16, "layers": 1, "attention_heads": 2, "ffn_dim": 16}
    with pytest.raises(ValueError, match="one dropout"):
        XLNetSettings(**shape, attention_dropout=0.1)
    with pytest.raises(ValueError, match="must be even"):
        XLNetSettings(**{**shape, "d_model": 9, "attention_heads": 3})
    with pytest.raises(UserError, match="does not support activation checkpointing"):
        recompute_activations(xlnet())


def test_a_vocabulary_is_transplanted_into_it(tmp_path: Path) -> None:
    old, new = multilingual_tokenizer(), fitted_tokenizer()
    made = transplant(
        xlnet(), dict.fromkeys(("encoder", "decoder"), old), dict.fromkeys(("encoder", "decoder"), new), Method("mean")
    ).model
    assert made.get_input_embeddings().weight is made.get_output_embeddings().weight
    assert count_parameters(made.config.to_dict()).total == sum(each.numel() for each in made.parameters())
    Bundle(made, new, new).save(tmp_path)
    ids = new.encode(german(1, 8)[0])
    assert torch.equal(
        logits(transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval(), ids), logits(made, ids)
    )


def test_states_are_those_of_the_content_stream_without_memory() -> None:
    model, ids = xlnet(), torch.tensor([multilingual_tokenizer().encode(english(1)[0])])
    whole = model.transformer(ids, output_hidden_states=True, use_mems=False).hidden_states
    family = family_of(model)
    for layer in (1, 2):
        torch.testing.assert_close(family.stack_states(model, layer=layer, input_ids=ids), whole[layer])
    torch.testing.assert_close(family.stack_states(model, input_ids=ids), whole[-1])


@pytest.mark.parametrize("kind", get_args(HeadKind))
def test_a_headed_model_is_counted_and_keeps_its_body(kind: HeadKind) -> None:
    body = xlnet()
    before = {name: each.clone() for name, each in body.transformer.state_dict().items()}
    made = with_head(body, kind, 3, seed=1)
    assert count_parameters(made.config.to_dict()).total == sum(each.numel() for each in made.parameters())
    assert all(torch.equal(each, before[name]) for name, each in made.base_model.state_dict().items())


def _rows(tokenizer: Tokenizer, model: Any, texts: list[str]) -> Any:
    encoder = TextEncoder.of(Bundle(model, tokenizer, tokenizer), None, 40)
    pairs = encoder.pairs(texts, german(len(texts), 9))
    return encoder, [*encoder.singles(texts), *pairs]


def test_a_classifier_reads_the_state_of_cls_whatever_pads_the_batch() -> None:
    tokenizer = multilingual_tokenizer()
    made, task = with_head(xlnet(), "sequence", 3, seed=1), Classification(("a", "b", "c"))
    encoder, rows = _rows(tokenizer, made, english(6))
    assert len({len(row.tokens) for row in rows}) > 2
    with torch.no_grad():
        together = task.logits(made, task.collate(one_row_each(rows), encoder.padding))
        for row, own in zip(rows, together, strict=True):
            types = torch.from_numpy(row.types)[None]
            alone = made(torch.from_numpy(row.tokens)[None].long(), token_type_ids=types).logits[0]
            torch.testing.assert_close(own, alone, rtol=1e-5, atol=1e-6)
            assert row.types[-1] == 2 and {*row.types[:-1].tolist()} <= {0, 1}
    assert (together[0] - together[1]).abs().max() > 1e-4


def test_a_classifier_exported_answers_as_transformers_pipelines_do(tmp_path: Path) -> None:
    tokenizer = multilingual_tokenizer()
    made: Any = with_head(xlnet(), "sequence", ("a", "b", "c"), seed=1)
    task = Classification(("a", "b", "c"))
    with torch.no_grad():
        made.logits_proj.weight.mul_(30)
    (tmp_path / "model").mkdir()
    Bundle(made, tokenizer, tokenizer).save(tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_transformers(tmp_path / "model", tmp_path / "out")
    texts = english(12)
    pipe: Any = transformers.pipeline("text-classification", model=str(tmp_path / "out"), device="cpu")
    theirs: Any = pipe(texts, batch_size=12, top_k=None, function_to_apply="none")
    encoder, rows = _rows(tokenizer, made, texts)
    with torch.no_grad():
        ours = task.logits(made, task.collate(one_row_each(rows[:12]), encoder.padding)).numpy()
    wanted = np.array([[one["score"] for one in sorted(each, key=lambda one: one["label"])] for each in theirs])
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
