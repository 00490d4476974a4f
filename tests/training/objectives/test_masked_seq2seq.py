"""MASS: half of a block is one masked span, which the decoder predicts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from engine_runs import run_workers
from small_experiments import finish, tiny, written
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.sides import without_dropout
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqView, token_loss
from subgraft.training.objectives.masked_seq2seq import MaskedSeq2SeqSettings, MaskedSpans
from toys import SHAPE, bart, english, masking_tokenizer, sequence_format

MODEL = "{family: bart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}"


def _blocks() -> Blocks:
    tokenizer = masking_tokenizer()
    form = sequence_format({"model_type": "bart"}, tokenizer, tokenizer, None)
    return Blocks(english(60), tokenizer, form, FAMILIES["bart"].sentence_separator(tokenizer), 40)


def _spans(share: float = 0.5, seed: int = 1) -> MaskedSpans:
    return MaskedSpans(_blocks(), MaskedSeq2SeqSettings(share=share), seed)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_the_target_fills_the_masked_span_of_the_source(share: float) -> None:
    spans, blocks, mask = _spans(share), _blocks(), masking_tokenizer().special["mask"]
    special = masking_tokenizer().special
    for index in range(len(spans)):
        example, body = spans.example(index, 0), blocks.example(index, 0)
        source, target = example.source[1:-1], example.target[1:-1]
        assert [example.source[0], example.source[-1]] == [example.target[0], example.target[-1]]
        assert [example.start, example.target[0], example.target[-1]] == [
            special["eos"],
            special["bos"],
            special["eos"],
        ]
        assert len(target) == source.count(mask) == max(1, round(share * len(body)))
        begin = source.index(mask)
        assert [*source[:begin], *target, *source[begin + len(target) :]] == body
        assert spans.lengths[index] == len(example.source)


def test_every_place_of_the_span_is_as_likely_as_any_other() -> None:
    spans, mask = _spans(), masking_tokenizer().special["mask"]
    begins = Counter(spans.example(0, epoch).source[1:].index(mask) for epoch in range(3000))
    source = spans.example(0, 0).source
    count = len(source) - 2 - source.count(mask) + 1
    assert set(begins) == set(range(count))
    assert chisquare(list(begins.values())).pvalue > 1e-3
    assert spans.example(2, 1) == _spans().example(2, 1) != _spans(seed=2).example(2, 1)


def test_the_loss_is_what_transformers_makes_of_labels() -> None:
    model, padding = bart(), masking_tokenizer().special["pad"]
    batch = Seq2SeqData(_spans(), padding, padding).batch(np.arange(6), 0)
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert (token_loss(model, batch) / batch.counts["loss"]).item() == pytest.approx(theirs.item(), rel=1e-6)


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_generator_learns_from_it(name: SideName) -> None:
    tokenizer = masking_tokenizer()
    view = Seq2SeqView(_spans(), name, (tokenizer.special["pad"], tokenizer.special["pad"]))
    loss = GeneratorLoss(without_dropout(bart()), Generator("patt", SHAPE["d_model"]), view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    sums = loss(Simulator(view, tokenizer, settings, 10, 1).batch(np.arange(6), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert loss.generator.weight.grad.abs().sum() > 0


def test_a_whole_experiment(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        tiny(
            model=MODEL,
            pretrain="{epochs: 2, batch_size: 500, precision: fp32}",
            sides="[encoder, decoder]",
            upstream="{corpus: upstream, objectives: [{kind: masked-seq2seq, block_tokens: 48}], "
            "vocabulary: {size: 70, byte_fallback: false}}",
            downstream="{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
        ),
    )
    pipeline, store = finish(config)
    assert store.path(pipeline.report).is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["bart", "multitask-masked"])
def test_two_workers_train_as_one(task: str, tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task=task)
    assert run_workers("plain", 2, tmp_path / "two", task=task) == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["bart", "multitask-masked"])
def test_zero_2_trains_as_one_process(task: str, tmp_path: Path) -> None:
    plain = run_workers("plain", 1, tmp_path / "plain", task=task)
    assert run_workers("zero2", 2, tmp_path / "zero", task=task) == pytest.approx(plain, rel=1e-3)
