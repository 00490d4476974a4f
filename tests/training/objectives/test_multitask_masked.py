"""UniLM's multitask masking: the four attentions leak nothing, and have the shares of BART's comparison."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from small_experiments import finish, tiny, written
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.sides import without_dropout
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.multitask_masked import (
    Attention,
    AttentionExample,
    MultitaskMasked,
    MultitaskMaskedView,
    MultitaskMasking,
    attention_batch,
)
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.multitask_masked import MultitaskMaskedSettings
from toys import SHAPE, bert, cased_tokenizer, english, sequence_format

SETTINGS = MultitaskMaskedSettings()
# What each of six tokens sees.
SEEN: dict[Attention, list[str]] = {
    "left-to-right": ["0", "01", "012", "0123", "01234", "012345"],
    "right-to-left": ["012345", "12345", "2345", "345", "45", "5"],
    "all": ["012345"] * 6,
    "prefix": ["012", "012", "012", "0123", "01234", "012345"],
}


def _examples(seed: int = 1) -> MultitaskMasked:
    tokenizer = cased_tokenizer()
    form = sequence_format({"model_type": "bert"}, tokenizer, tokenizer, None)
    blocks = Blocks(english(80), tokenizer, form, FAMILIES["bert"].sentence_separator(tokenizer), 40)
    return MultitaskMasked(blocks, MultitaskMasking(tokenizer, SETTINGS), seed)


def _tiny(model_type: str) -> PreTrainedModel:
    sizes = {"hidden_size": 16, "embedding_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model(model_type, vocab_size=50, intermediate_size=24, max_position_embeddings=20, **sizes)
    torch.manual_seed(1)
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(config).eval()
    return model


@pytest.mark.parametrize("model_type", ["bert", "electra", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("attention", SEEN)
def test_a_token_outside_of_an_attention_changes_no_state_and_one_inside_does(
    attention: Attention, model_type: str
) -> None:
    """Two layers: what leaks in one would spread in the next. The second example pads the first."""
    model, family = _tiny(model_type), FAMILIES[model_type]
    assert "multitask-masked" in family.objectives
    tokens = [5, 6, 7, 8, 9, 10]
    padding = int(model.config.pad_token_id)

    def states(read: list[int]) -> torch.Tensor:
        examples = [AttentionExample(each, [IGNORED] * len(each), attention) for each in (read, [5] * 9)]
        batch = attention_batch(examples, padding)
        top = family.stack_states(model, input_ids=batch.input_ids, attention_mask=batch.attention_mask)
        assert top.isfinite().all()
        return top[0, :6].detach()

    before = states(tokens)
    for place in range(6):
        moved = (states([*tokens[:place], 20, *tokens[place + 1 :]]) - before).abs().amax(dim=1)
        for query, seen in enumerate(SEEN[attention]):
            assert (moved[query] > 1e-5) if str(place) in seen else (moved[query] < 1e-6), (place, query)


def test_padding_changes_nothing() -> None:
    model, examples = bert(), _examples()
    drawn = [examples.example(index, 0) for index in range(8)]
    padding = cased_tokenizer().special["pad"]
    together = StackLoss(model)(attention_batch(drawn, padding))["loss"]
    alone = torch.stack([StackLoss(model)(attention_batch([each], padding))["loss"] for each in drawn])
    torch.testing.assert_close(together, alone.sum(), rtol=1e-5, atol=1e-4)


def test_attentions_have_the_shares_of_the_comparison_and_hide_a_fixed_count() -> None:
    examples = _examples()
    counts: Counter[str] = Counter()
    places: Counter[int] = Counter()
    for epoch in range(200):
        for index in range(len(examples)):
            example = examples.example(index, epoch)
            counts[example.attention] += 1
            hidden = [place for place, label in enumerate(example.labels) if label != IGNORED]
            assert len(hidden) == round(0.15 * (len(example.tokens) - 2))
            if index == 0:
                places.update(hidden)
    total = sum(counts.values())
    assert chisquare([counts[name] for name in SEEN], [total / 6, total / 6, total / 3, total / 3]).pvalue > 1e-3
    size, drawn = len(examples.example(0, 0).tokens) - 2, sum(places.values()) / 200
    statistic = chisquare([places[place] for place in range(1, size + 1)]).statistic * (size - 1) / (size - drawn)
    assert statistic < size - 1 + 4.5 * np.sqrt(2 * (size - 1))
    assert examples.example(3, 2) == _examples().example(3, 2) != _examples(seed=2).example(3, 2)


def test_the_loss_is_what_transformers_makes_of_labels() -> None:
    model, examples = bert(), _examples()
    batch = attention_batch([examples.example(index, 0) for index in range(8)], cased_tokenizer().special["pad"])
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert theirs is not None
    ours = StackLoss(model)(batch)["loss"] / batch.counts["loss"]
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)


def test_a_generator_learns_from_it() -> None:
    tokenizer = cased_tokenizer()
    view = MultitaskMaskedView(_examples(), tokenizer.special["pad"])
    assert view.original(0, 0).attention == "all" and set(view.original(0, 0).labels) == {IGNORED}
    loss = GeneratorLoss(without_dropout(bert()), Generator("patt", SHAPE["d_model"]), view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    sums = loss(Simulator(view, tokenizer, settings, 10, 1).batch(np.arange(6), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    gradient: Any = loss.generator.weight.grad
    assert gradient is not None and gradient.abs().sum() > 0


@pytest.mark.slow
def test_a_whole_experiment_writes_text_with_an_encoder_decoder_of_it(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        tiny(
            model="{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
            pretrain="{epochs: 2, batch_size: 500, precision: fp32}",
            upstream="{corpus: upstream, objectives: [{kind: multitask-masked, block_tokens: 48}], "
            "vocabulary: {kind: wordpiece, size: 100}}",
            downstream="{corpus: downstream, vocabulary: {kind: wordpiece, size: 100}}",
        ),
    )
    pipeline, store = finish(config)
    assert store.path(pipeline.report).is_dir()
