"""BART, built here: what transformers computes and loads is what is pretrained."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.settings_base import SideName
from subgraft.data.text.noise import joined
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, count_parameters
from subgraft.modeling.heads import with_head
from subgraft.modeling.sides import shares_table
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import SHAPE, bart, english, generated, german, masking_tokenizer, sequence_format

KINDS = pytest.mark.parametrize("kind", ["unigram", "byte-level-bpe"])
SIDES: tuple[SideName, SideName] = ("encoder", "decoder")
MODEL = "{family: bart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}"
CHANGES = {
    "model": MODEL,
    "pretrain": "{epochs: 2, batch_size: 500, precision: fp32}",
    "sides": "[encoder, decoder]",
    "downstream": "{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
}


def _blocks(kind: str = "unigram", starts: np.ndarray | None = None) -> Blocks:
    tokenizer = masking_tokenizer(kind)
    form = sequence_format({"model_type": "bart"}, tokenizer, tokenizer, None)
    return Blocks(english(60), tokenizer, form, FAMILIES["bart"].sentence_separator(tokenizer), 40, starts=starts)


def _denoising(kind: str = "unigram") -> Denoising:
    return Denoising(_blocks(kind), DenoisingSettings(noises={"infilling": 0.3, "permutation": 1.0}), seed=1)


def _batch(kind: str = "unigram") -> Seq2SeqBatch:
    padding = masking_tokenizer(kind).special["pad"]
    return Seq2SeqData(_denoising(kind), padding, padding).batch(np.arange(6), 0)


@KINDS
def test_a_block_is_running_text_between_the_marks_of_a_text(kind: str) -> None:
    tokenizer, examples = masking_tokenizer(kind), _denoising(kind)
    begin, end = tokenizer.special["bos"], tokenizer.special["eos"]
    made = [examples.example(index, 0) for index in range(len(examples))]
    for example in made:
        assert example.start == end
        assert example.target[0] == example.source[0] == begin and example.target[-1] == example.source[-1] == end
        assert example.target.count(end) == example.source.count(end) == 1
        assert tokenizer.special["mask"] in example.source
    assert max(len(example.target) for example in made) == examples.lengths.max() <= 40
    assert examples.lengths.tolist() == [len(example.target) for example in made]
    assert " ".join(tokenizer.decode(example.target).strip() for example in made) == " ".join(english(60))


@KINDS
def test_a_block_crosses_no_document(kind: str) -> None:
    starts = np.array([0, 1, 7, 30, 60])
    tokenizer, blocks = masking_tokenizer(kind), _blocks(kind, starts=starts)
    sizes = [len(blocks.sentences(index, 0)) for index in range(len(blocks))]
    bounds = np.cumsum([0, *sizes])
    assert set(starts) <= set(bounds.tolist()) and len(blocks) > len(starts)
    for index, (begin, end) in enumerate(pairwise(bounds.tolist())):
        text = joined(blocks.sentences(index, 0), blocks.separator)
        assert tokenizer.decode(text) == " ".join(english(60)[begin:end])


@KINDS
def test_a_saved_one_is_what_transformers_alone_reads(kind: str, tmp_path: Path) -> None:
    model, batch, tokenizer = bart(kind=kind), _batch(kind), masking_tokenizer(kind)
    Bundle(model, tokenizer, tokenizer).save(tmp_path)
    again, standard = Bundle.load(tmp_path).model, AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    inputs = (batch.input_ids, batch.attention_mask, batch.decoder_input_ids)
    assert type(standard).__name__ == "BartForConditionalGeneration"
    assert torch.equal(again(*inputs).logits, model(*inputs).logits)
    assert torch.equal(standard(*inputs).logits, model(*inputs).logits)
    assert shares_table(again)
    assert count_parameters(again.config.to_dict()).total == sum(p.numel() for p in again.parameters())
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.mask_token_id == tokenizer.special["mask"]
    assert theirs.encode("thankful garden", add_special_tokens=False) == tokenizer.encode("thankful garden")
    out = generated(standard, batch.input_ids[:1], max_length=6, num_beams=1)[0].tolist()
    assert out[:2] == [tokenizer.special["eos"], tokenizer.special["bos"]], "as in training"


def test_a_transferred_one_begins_and_ends_with_the_tokens_of_the_new_vocabulary(tmp_path: Path) -> None:
    old = masking_tokenizer()
    new = learn(german(400, 7), kind="unigram", size=180, like=old)
    Bundle(bart(), old, old).save(tmp_path / "old")
    transfer(tmp_path / "old", dict.fromkeys(SIDES, new), Method("mean"), tmp_path / "new")
    model = Bundle.load(tmp_path / "new").model
    assert model.config.decoder_start_token_id == new.special["eos"]
    assert model.generation_config.forced_bos_token_id == new.special["bos"]
    assert bart().generation_config.max_length == SHAPE["max_positions"]


@pytest.mark.parametrize("several", [False, True], ids=["text", "pair"])
def test_classes_are_predicted_from_the_state_of_the_last_end_token_of_the_decoder(several: bool) -> None:
    """Encoder and decoder read the same input, and a pair has an end token between its texts too (section 3.1)."""
    tokenizer = masking_tokenizer()
    layout = Bundle(bart(), tokenizer, tokenizer).input_layout()
    model = with_head(bart(), "sequence", 2, seed=1)
    texts = [tokenizer.encode(line) for line in english(2)]
    tokens = layout.pair(texts[0], texts[1]).ids if several else layout.single(texts[0]).ids
    assert tokens.count(tokenizer.special["eos"]) == (3 if several else 1)
    rows = torch.tensor([tokens, [*tokens[:-2], tokens[-1], tokenizer.special["pad"]]])
    mask = rows != tokenizer.special["pad"]
    shifted = torch.cat([torch.full_like(rows[:, :1], tokenizer.special["eos"]), rows[:, :-1]], dim=1)
    states = model.base_model(rows, attention_mask=mask, decoder_input_ids=shifted).last_hidden_state
    at = torch.tensor([len(tokens) - 1, len(tokens) - 2])
    assert (rows[torch.arange(2), at] == tokenizer.special["eos"]).all()
    expected = model.classification_head(states[torch.arange(2), at])  # type: ignore[operator]
    torch.testing.assert_close(model(rows, attention_mask=mask).logits, expected, rtol=0, atol=1e-6)


NOISES = "{infilling: 0.3, permutation: 1, rotation: 0.5, masking: 0.1, deletion: 0.1}"


def _upstream(noises: str) -> str:
    objective = f"{{kind: denoising, block_tokens: 48, noises: {noises}}}"
    return f"{{corpus: upstream, objectives: [{objective}], vocabulary: {{size: 70, byte_fallback: false}}}}"


@pytest.mark.slow
def test_a_whole_experiment_denoises_translates_and_gets_a_vocabulary(tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, tiny(**CHANGES, upstream=_upstream(NOISES))))
    assert store.path(pipeline.report).is_dir()


@pytest.mark.parametrize(
    ("noises", "complaint"),
    [
        ("{masking: 0.6, deletion: 0.5}", "add up to more than 1"),
        ("{deleting: 0.6}", "deletion"),
        ("{rotation: 2}", "less than or equal to 1"),
    ],
)
def test_impossible_noises_are_refused(noises: str, complaint: str, tmp_path: Path) -> None:
    config = written(tmp_path, tiny(**CHANGES, upstream=_upstream(noises)))
    with pytest.raises(UserError, match=complaint):
        load(config, Experiment, ())
