"""XLNet's objective: blocks, targets and their order, what is seen of them, and the loss of transformers' class."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch.nn.functional import cross_entropy

from permuted import ENGLISH, documents, objective
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.contrib.xlnet.objective import PermutationSettings
from subgraft.contrib.xlnet.permutation import PermutedBatch, PermutedStates
from subgraft.contrib.xlnet.permutation_text import Segments, draw_spans, draw_targets
from subgraft.contrib.xlnet.two_streams import CONTEXT, permutation_mask, target_mapping
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.generators.generator import Generator, mix
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from toys import english, multilingual_tokenizer, xlnet

SEP, CLS = 2, 0
ALL: dict[str, Any] = {"input": "segment-pair", "next_sentence": True}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return documents(tmp_path_factory.mktemp("documents"))


def same(counts: Counter[Any], classes: int) -> bool:
    """Whether counts of so many classes are as those of equal probabilities would be."""
    assert len(counts) == classes
    return float(chisquare(list(counts.values())).pvalue) > 0.001


# Targets and their order.


def test_spans_are_as_long_and_lie_as_the_paper_says() -> None:
    rng, lengths, places, covered = np.random.default_rng(1), Counter[int](), Counter[int](), 0
    for _ in range(400):
        spans = draw_spans(600, 6, rng)
        ends, at = [start + length for start, length in spans], 0
        assert all(start >= end for (start, _), end in zip(spans[1:], ends, strict=False))
        covered += sum(length for _, length in spans)
        for start, length in spans:
            if at + 30 > 600:  # the last contexts may be cut
                break
            lengths[length] += 1
            if length == 2:
                places[start - at] += 1
            at += 6 * length
    assert same(lengths, 5), lengths
    assert same(places, 11), "a span of 2 begins at any of the first 11 of 12 tokens"
    assert covered / (400 * 600) == pytest.approx(1 / 6, abs=0.003)


@pytest.mark.parametrize(("factor", "size", "count"), [(6, 60, 10), (7, 60, 9), (1, 8, 8), (6, 3, 1)])
def test_single_tokens_are_predicted_everywhere_alike(factor: int, size: int, count: int) -> None:
    settings, rng, places = (
        PermutationSettings(partial_prediction=factor, spans=False),
        np.random.default_rng(1),
        Counter[int](),
    )
    for _ in range(1500):
        targets = draw_targets(size, settings, rng)
        assert len(targets) == count and (np.diff(targets) > 0).all()
        places.update(targets.tolist())
    assert count == size or same(places, size)


def test_every_order_is_as_likely(corpus: Corpus) -> None:
    permuted, rng = objective(corpus, {"partial_prediction": 1}).permutation, np.random.default_rng(2)
    orders = Counter(tuple(permuted.permute_targets(permuted.whole([7, 8, 9, 10]), rng).ranks) for _ in range(6000))
    assert set(orders) == {(*order, CONTEXT, CONTEXT) for order in permutations(range(4))}
    assert same(orders, 24), "special tokens are context"


def test_examples_are_functions_of_seed_epoch_and_index(corpus: Corpus) -> None:
    made = objective(corpus, ALL)
    assert made.example(4, 1) == objective(corpus, ALL).example(4, 1) != made.example(4, 2)
    assert len({tuple(made.example(4, epoch).ranks) for epoch in range(8)}) > 4


# Blocks.


def _texts(corpus: Corpus) -> list[list[int]]:
    """The tokens of each document."""
    lines = list(corpus.lines("train", "source"))
    encoded = multilingual_tokenizer().encode_batch(lines)
    return [[token for line in encoded[run.start : run.stop] for token in line] for run in corpus.documents("train")]


@pytest.mark.parametrize("settings", [{}, ALL])
def test_blocks_are_the_documents_each_token_once(corpus: Corpus, settings: dict[str, Any]) -> None:
    blocks, whole = objective(corpus, settings, max_length=90).blocks, _texts(corpus)
    assert len(blocks) > len(whole)
    for document, (begin, end) in enumerate(zip(blocks.starts[:-1], blocks.starts[1:], strict=True)):
        assert [token for index in range(begin, end) for token in blocks.text(index)] == whole[document]
        assert (begin < end) and (blocks.sizes[begin:end] <= 88).all()


def test_sentences_beyond_a_block_are_cut(corpus: Corpus) -> None:
    """Of two segments each has room: half of the block."""
    short = objective(corpus, {}, max_length=12).blocks
    assert short.sizes.max() == 10 and (short.costs == short.sizes).all()
    paired = objective(corpus, ALL, max_length=15).blocks
    assert {len(paired.segments(index, np.random.default_rng(index)).first) for index in range(9)} == {6}


def test_half_of_the_second_segments_are_of_another_document(corpus: Corpus, tmp_path: Path) -> None:
    many = documents(tmp_path, 60, 13)
    made, whole = objective(many, ALL, max_length=90).blocks, _texts(many)
    rng, begins = np.random.default_rng(1), Counter[bool]()
    for document, (begin, end) in enumerate(zip(made.starts[:-1].tolist(), made.starts[1:].tolist(), strict=True)):
        for index in range(begin, end):
            first, second, follows = made.segments(index, rng)
            assert second and len(first) + len(second) <= 87
            assert _holds(whole[document], second) == follows
            assert follows or any(_holds(text, second) for text in whole)
            assert first + second == made.text(index) if follows else first == made.text(index)
            if made._bounds.begins[index] + 1 < made._runs[document + 1]:
                begins[follows] += 1
    assert begins.total() > 100 and same(begins, 2), "a block of a document's last sentence has no choice"


def test_another_documents_segment_is_not_from_beyond_a_gap_of_the_same_document(tmp_path: Path) -> None:
    with_gaps = documents(tmp_path, 10, repeated="A line that all documents have is kept once.")
    made, whole = objective(with_gaps, ALL, max_length=60).blocks, _texts(with_gaps)
    names = [run.document for run in with_gaps.documents("train")]
    assert len(names) > len(set(names)), "documents have gaps"
    rng = np.random.default_rng(1)
    for epoch in range(20):
        for index in range(len(made)):
            segments = made.segments(index, rng)
            if segments.second and not segments.follows:
                own = names[int(np.searchsorted(made.starts, index, side="right")) - 1]
                same_document = [text for name, text in zip(names, whole, strict=True) if name == own]
                assert not any(_holds(text, segments.second) for text in same_document), epoch


def _holds(text: list[int], part: list[int]) -> bool:
    return any(text[at : at + len(part)] == part for at in range(len(text) - len(part) + 1))


def test_half_of_the_documents_are_read_backwards_others_in_every_epoch(tmp_path: Path) -> None:
    many = documents(tmp_path, 40, 3)
    made = objective(many, ALL)
    read = np.array([made.blocks.backwards(epoch) for epoch in range(60)])
    assert same(Counter(read.ravel().tolist()), 2)
    assert read.sum(axis=0).min() > 0 and read.sum(axis=0).max() < 60
    assert not objective(many, {"bidirectional": False}).blocks.backwards(3).any()


def test_what_is_read_backwards_begins_with_its_last_token() -> None:
    assert Segments([1, 2], [3, 4, 5]).reversed() == Segments([5, 4, 3], [2, 1])
    assert Segments([1, 2], [8, 9], follows=False).reversed() == Segments([2, 1], [9, 8], follows=False)
    assert Segments([1, 2]).reversed() == Segments([2, 1])


def test_segments_end_with_sep_and_the_whole_with_cls(corpus: Corpus) -> None:
    laid = objective(corpus, ALL).permutation.lay_out(Segments([7, 8], [9], follows=True))
    assert laid.tokens == [7, 8, SEP, 9, SEP, CLS] and laid.types == [0, 0, 0, 1, 1, 2]
    assert laid.text == [0, 1, 3] and laid.follows is True
    foreign = objective(corpus, ALL).permutation.lay_out(Segments([7, 8], [9], follows=False))
    assert foreign.text == [0, 1] and foreign.follows is False


def test_lines_alone_need_no_documents(tmp_path: Path) -> None:
    made = objective(documents(tmp_path, 3), {"input": "sentences"})
    assert len(made.blocks) == len(made.blocks.starts) - 1 > 3
    batch = made.batch(np.arange(5), 0)
    assert (batch.attention_mask.sum(dim=1).numpy() == made.lengths[:5]).all()


# Who sees whom.


def _streams(batch: PermutedBatch, model: Any) -> Any:
    with torch.no_grad():
        return PermutedStates(model, batch, ModelEmbeddings(model)).streams


def _changed(batch: PermutedBatch, place: int) -> PermutedBatch:
    tokens = batch.input_ids.clone()
    tokens[0, place] = (tokens[0, place] + 9) % 100
    return replace(batch, input_ids=tokens)


def test_a_query_does_not_see_its_token_and_later_queries_do(corpus: Corpus) -> None:
    made, model = objective(corpus, {"spans": False, "partial_prediction": 3}), xlnet()
    batch = made.batch(np.array([1]), 0)
    order = sorted(made.example(1, 0).targets, key=lambda place: made.example(1, 0).ranks[place])
    columns = {place: column for column, place in enumerate(batch.targets[0].tolist())}
    whole = _streams(batch, model)
    for at, place in enumerate(order):
        other = _streams(_changed(batch, place), model)
        moved = (other.query - whole.query).abs().amax(dim=2)[0]
        content = (other.content - whole.content).abs().amax(dim=2)[0]
        assert content[place] > 1e-3
        for later, target in enumerate(order):
            assert (moved[columns[target]] > 1e-6) == (later > at), "exactly those after it read it"
            assert later == at or (content[target] > 1e-6) == (later > at)
        context = [each for each in range(batch.shape[1]) if each not in order]
        assert content[context].max() == 0.0, "the context reads no target"


def test_the_loss_is_that_of_transformers_class(corpus: Corpus) -> None:
    model = xlnet()
    for settings in ({"bidirectional": False}, {"input": "segment-pair", "bidirectional": False, "spans": False}):
        made = objective(corpus, settings, model)
        batch = made.batch(np.arange(6), 0)
        assert (made.lengths[:6] >= batch.attention_mask.sum(dim=1).numpy()).all()
        own = model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            token_type_ids=batch.token_type_ids,
            perm_mask=permutation_mask(batch.ranks).float(),
            target_mapping=target_mapping(batch.targets, batch.labels != IGNORED, batch.shape[1]).float(),
            labels=batch.labels,
        ).loss
        loss = made.loss(0.0)(batch)["loss"]
        assert float(loss.detach()) / batch.counts["loss"] == pytest.approx(float(own.detach()), abs=1e-6, rel=1e-6)
        alone = sum(float(made.loss(0.0)(made.batch(np.array([row]), 0))["loss"].detach()) for row in range(6))
        assert alone == pytest.approx(float(loss.detach()), rel=1e-5)


def test_every_parameter_is_trained(corpus: Corpus) -> None:
    made = objective(corpus, ALL)
    loss = made.loss(0.0)
    sum(loss(made.batch(np.arange(6), 0)).values()).backward()
    lacking = [name for name, each in loss.named_parameters() if each.grad is None or not each.grad.any()]
    assert lacking == []


def test_whether_a_segment_follows_is_read_from_cls(corpus: Corpus) -> None:
    made, model = objective(corpus, ALL), xlnet()
    loss, batch = made.loss(0.0), made.batch(np.arange(12), 0)
    assert loss.next_sentence is not None and batch.counts["next_sentence"] == 12
    assert {0, 1} == set(batch.follows.tolist())
    assert [not made.example(index, 0).follows for index in range(12)] == batch.follows.bool().tolist()
    ends = batch.attention_mask.sum(dim=1) - 1
    assert (batch.input_ids.gather(1, ends[:, None]) == CLS).all()
    states = _streams(batch, model).content[torch.arange(12), ends]
    wanted = cross_entropy(loss.next_sentence(states), batch.follows, reduction="sum")
    torch.testing.assert_close(loss.eval()(batch)["next_sentence"], wanted, rtol=1e-5, atol=1e-5)
    assert "next_sentence" not in objective(corpus, {"input": "segment-pair"}).batch(np.arange(4), 0).counts
    again = made.loss(0.0).next_sentence
    assert again is not None and torch.equal(again.weight, loss.next_sentence.weight)


# The view that trains generators.


def _simulated(corpus: Corpus, kd_weight: float) -> tuple[Simulator, GeneratorLoss]:
    view, tokenizer = objective(corpus, {"partial_prediction": 3}).view("decoder"), multilingual_tokenizer()
    rates = ResegmentationSettings(merge_rate=0.5, split_rate=0.4)
    generator = Generator("patt", 16)
    torch.nn.init.normal_(generator.weight, generator=torch.Generator().manual_seed(3))
    loss = GeneratorLoss(xlnet(), generator, view, kd_weight, 0.0, "input").eval()
    return Simulator(view, tokenizer, rates, 10, 1), loss


def test_a_generator_is_trained_through_the_query_stream_under_extended_tables(corpus: Corpus) -> None:
    """Compared with a model whose tables really have the generated rows."""
    simulator, loss = _simulated(corpus, 0.0)
    seen = 0
    for index in range(8):
        batch: Any = simulator.batch(np.array([index]), epoch=0)
        model, predicted = xlnet(), batch.predicted
        seen += int((predicted.labels >= 110).sum())
        table, bias = model.transformer.word_embedding.weight.detach(), model.lm_loss.bias.detach()
        weights = loss.generator.mixing_weights(table, batch.new)
        extended = torch.cat([table, mix(table, weights, batch.new)])
        biases = torch.cat([bias, mix(bias[:, None], weights, batch.new)[:, 0]])
        states = model.transformer(
            inputs_embeds=extended[predicted.input_ids],
            attention_mask=predicted.attention_mask,
            token_type_ids=predicted.token_type_ids,
            perm_mask=permutation_mask(predicted.ranks).float(),
            target_mapping=target_mapping(predicted.targets, predicted.labels != IGNORED, predicted.shape[1]).float(),
        ).last_hidden_state
        logits: Tensor = states @ extended.T + biases
        wanted = cross_entropy(logits[0], predicted.labels[0], ignore_index=IGNORED, reduction="sum")
        torch.testing.assert_close(loss(batch)["prediction"], wanted, rtol=1e-4, atol=1e-4)
    assert seen, "new tokens are predicted too"


def test_distillation_compares_contents_where_all_is_seen(corpus: Corpus) -> None:
    simulator, loss = _simulated(corpus, 0.5)
    batch: Any = simulator.batch(np.array([1]), epoch=0)
    model, spans = loss.model.transformer, batch.spans
    table = model.word_embedding.weight.detach()
    rows = mix(table, loss.generator.mixing_weights(table, batch.new), batch.new)
    types = batch.original.token_type_ids, batch.resegmented.token_type_ids
    teacher = model(batch.original.input_ids, token_type_ids=types[0]).last_hidden_state[0]
    read = torch.cat([table, rows])[batch.resegmented.input_ids]
    student = model(inputs_embeds=read, token_type_ids=types[1]).last_hidden_state[0]
    wanted = torch.zeros(())
    for span in range(spans.count):
        before = teacher[spans.original[spans.original[:, 2] == span, 1]].mean(dim=0)
        after = student[spans.resegmented[spans.resegmented[:, 2] == span, 1]].mean(dim=0)
        wanted = wanted + (before - after).norm()
    sums = loss(batch)
    torch.testing.assert_close(sums["distillation"], wanted, rtol=1e-4, atol=1e-4)
    (sums["prediction"] + sums["distillation"]).backward()
    assert [name for name, each in loss.named_parameters() if each.grad is not None] == ["generator.weight"]


# Mistakes.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory_tokens": 4}, "write input: doc-sentences"),
        ({"input": "doc-sentences", "next_sentence": True}, "write input: segment-pair"),
        ({"partial_prediction": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PermutationSettings(**settings)


def test_a_single_document_has_no_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs two documents of each language"):
        objective(documents(tmp_path, 1), ALL)


def test_a_corpus_without_documents_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("\n".join(english(20)) + "\n")
    corpus = build(CorpusSource(folder=str(tmp_path)), ENGLISH, Cleaning(), tmp_path / "corpus")
    with pytest.raises(UserError, match="document"):
        objective(corpus)
    assert len(objective(corpus, {"input": "sentences"}).blocks) > 10
