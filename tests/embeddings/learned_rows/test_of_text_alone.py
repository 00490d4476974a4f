"""Rows that are learnt from the text of a language model, without sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from transformers import PreTrainedModel

from small_experiments import finish, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.learned_rows.attention_influence_loss import AttentionInfluenceLoss
from subgraft.embeddings.learned_rows.distillation import loaded_for_text
from subgraft.embeddings.learned_rows.fitted import NewTokenPairs, OutputProblem, PredictedPairs
from subgraft.embeddings.learned_rows.likelihood_matching import (
    LikelihoodMatchingLoss,
    SpanPairs,
    StudentTables,
)
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs, SegmentPairs
from subgraft.embeddings.learned_rows.student_embeddings import StudentTable
from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss
from subgraft.embeddings.learned_rows.vocadt import VocadtLoss
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceSettings
from subgraft.embeddings.methods.fitted import FittedStage
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingSettings
from subgraft.embeddings.methods.method import LearningStage
from subgraft.embeddings.methods.token_distillation import TokenDistillationSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.models import UntieStage
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData
from subgraft.training.objectives.compute.translation import Translation
from toys import german, german_tokenizer, gpt2, llama

DE = Languages(source="de", target="de")
TRAINING = TrainingSettings(max_steps=1, batch_size=900, max_length=60, learning_rate=0.01, warmup_steps=5)
NEW = learn(german(400, 7), kind="unigram", size=150)
UNSEEN = set(align(german_tokenizer(), NEW).unseen)
# Lines with new tokens: others train nothing, and are left out.
TEXT = [("", line) for line in german(20, 5) if UNSEEN & set(NEW.encode(line))]
MODELS = {"gpt2": gpt2, "llama": llama}


def upstream(name: str) -> Bundle:
    model = MODELS[name]().eval()
    return Bundle(model, german_tokenizer(), german_tokenizer())


def mean_of(bundle: Bundle) -> PreTrainedModel:
    """The model over the new vocabulary, with the rows that trainings begin with."""
    model = transplant(bundle.model, bundle.tokenizers, {"decoder": NEW}, Method("mean")).model
    model.train(False)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_distances_are_between_states_of_transformers(name: str) -> None:
    bundle = upstream(name)
    decoder = side_of(bundle.model, "decoder")
    start = StudentTable.of(decoder, bundle.decoder, NEW)
    text = SegmentationPairs(TEXT, bundle, "decoder", NEW, DE, TRAINING, start.tokens)
    batch = text.batch(np.arange(len(text)), 0)
    with torch.no_grad():
        loss = TokenDistillationLoss(bundle.model, decoder, start, TokenDistillationSettings())(batch)["distillation"]
        other = mean_of(upstream(name))
        begin = bundle.sequence_format(None).start
        total, compared = 0.0, 0
        for _, line in TEXT:
            before, after = bundle.decoder.encode(line), NEW.encode(line)
            states = [
                model.base_model(input_ids=torch.tensor([[begin, *ids]])).last_hidden_state[0]
                for model, ids in ((bundle.model, before), (other, after))
            ]
            first = min(place for place, token in enumerate(after) if token in UNSEEN)
            for old, new in agreeing(bundle, before, after):
                if new >= first:
                    total += float((states[0][old + 1] - states[1][new + 1]).square().mean())
                    compared += 1
    assert batch.counts["distillation"] == compared > 20
    assert float(loss) == pytest.approx(total, rel=1e-4)


def agreeing(bundle: Bundle, before: list[int], after: list[int]) -> list[tuple[int, int]]:
    """Places after which both have the same characters, counted by decoding what was read until there."""
    read = [
        {tokenizer.decode(ids[: place + 1]): place for place in range(len(ids))}
        for tokenizer, ids in ((bundle.decoder, before), (NEW, after))
    ]
    return [(read[0][text], place) for text, place in read[1].items() if text in read[0]]


@pytest.mark.parametrize("name", MODELS)
def test_likelihoods_are_those_of_transformers(name: str) -> None:
    """Of whole texts and their ends: the sum over spans, as neither vocabulary changes the characters."""
    bundle = upstream(name)
    start = StudentTables.of(bundle, NEW, Method("mean"))
    text = SpanPairs(TEXT, bundle, "decoder", NEW, DE, TRAINING, start.tokens)
    batch = text.batch(np.arange(len(text)), 0)
    begin, end = bundle.sequence_format(None).start, bundle.decoder.special["eos"]
    with torch.no_grad():
        measured = LikelihoodMatchingLoss(bundle, NEW, start, LikelihoodMatchingSettings()).span_likelihoods(batch)
        other = mean_of(upstream(name))
        for model, tokenizer, likelihoods in (
            (bundle.model, bundle.decoder, measured.teacher),
            (other, NEW, measured.student),
        ):
            total = 0.0
            for _, line in TEXT:
                ids = torch.tensor([[begin, *tokenizer.encode(line), end]])
                logits = model(input_ids=ids).logits[0].log_softmax(-1)
                total += float(logits[:-1].gather(1, ids[0, 1:, None]).sum())
            assert float(likelihoods.sum()) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_the_adapter_has_the_loss_of_transformers(name: str) -> None:
    bundle = upstream(name)
    module = VocadtLoss(bundle, {"decoder": NEW}, {"decoder": set(range(len(bundle.decoder)))})
    form = Bundle(bundle.model, NEW, NEW).sequence_format(None)
    data = Seq2SeqData(Translation(TEXT, bundle.encoder, NEW, form, 60), 0, 0)
    other, total = mean_of(upstream(name)), 0.0
    with torch.no_grad():
        loss = float(module(data.batch(np.arange(len(TEXT)), 0))["loss"])
        for _, line in TEXT:
            ids = torch.tensor([[form.start, *NEW.encode(line), *form.target_ending]])
            total += float(other(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
    assert loss == pytest.approx(total, rel=1e-4)


def test_heads_that_share_values_are_compared_with_their_queries() -> None:
    """The toy Llama has fewer heads of values: its influences are those of repeated values."""
    bundle = upstream("llama")
    config = bundle.model.config
    assert config.num_key_value_heads < config.num_attention_heads
    decoder = side_of(bundle.model, "decoder")
    start = StudentTable.of(decoder, bundle.decoder, NEW)
    text = SegmentPairs(TEXT, bundle, "decoder", NEW, DE, TRAINING, start.tokens)
    module = AttentionInfluenceLoss(bundle.model, decoder, start, AttentionInfluenceSettings(layer=1))
    loss = module(text.batch(np.arange(len(text)), 0))["distillation"]
    loss.backward()
    assert float(loss) > 0 and module.embeddings.added.grad is not None
    assert float(module.embeddings.added.grad.abs().max()) > 0


SHAPES = {
    "gpt2": "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}",
    "llama": "{family: llama, d_model: 16, layers: 2, attention_heads: 2, key_value_heads: 1, ffn_dim: 16}",
}
TRAINED = ("token-distillation", "attention-influence", "likelihood-matching", "vocadt")


def continued(name: str, methods: tuple[str, ...]) -> str:
    short = "{max_steps: 2, batch_size: 500, precision: fp32}"
    systems = "".join(f"- {{name: {method}, initialiser: {method}}}\n" for method in methods)
    return tiny(
        task="continuation",
        languages="{source: de, target: de}",
        upstream="{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        model=SHAPES[name],
        pretrain="{epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 4}",
        systems=f"- {{name: plain, vocabulary: upstream}}\n{systems}",
        **{f"{method.replace('-', '_')}_training": short for method in methods if method != "mean"},
    )


def begun_as_pretrained(step: Step, store: Store) -> Bundle:
    """The model as the learning of a step's rows reads it."""
    assert isinstance(step.stage, LearningStage)
    return loaded_for_text(step.stage, {"model": store.path(step.inputs["model"])})


@pytest.mark.parametrize("name", MODELS)
def test_experiments_learn_rows_from_the_task_s_text(name: str, tmp_path: Path) -> None:
    methods = tuple(method for method in TRAINED if name == "llama" or method != "attention-influence")
    pipeline, store = finish(written(tmp_path, continued(name, methods)))
    for steps in pipeline.systems[1:]:
        assert steps.distilled is not None
        rows = LearnedEmbeddings.load(store.path(steps.distilled) / "decoder")
        assert len(rows.tokens) > 5, steps.system.name
        bundle = begun_as_pretrained(steps.distilled, store)
        assert bundle.sequence_format(None).start == bundle.decoder.special["eos"], steps.system.name
        record = store.find(steps.evaluate)
        assert record is not None and record.summary["bits_per_character"] > 0


def test_a_model_without_values_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no layer 1 with values of its own in this gpt2's decoder"):
        finish(written(tmp_path, continued("gpt2", ("attention-influence",))))


# Rows that a decoder reads like their pieces and predicts where it predicted these.


def boundaries(bundle: Bundle) -> Iterator[tuple[torch.Tensor, int]]:
    """The frozen model's state at each boundary of both segmentations, and the token that follows in the new one."""
    begin, ending = bundle.sequence_format(None).start, NEW.special["eos"]
    for _, line in TEXT:
        before, after = bundle.decoder.encode(line), NEW.encode(line)
        states = bundle.model.base_model(input_ids=torch.tensor([[begin, *before]])).last_hidden_state[0]
        yield states[0], after[0]
        for old, new in agreeing(bundle, before, after):
            yield states[old + 1], [*after, ending][new + 1]


@pytest.mark.parametrize("name", MODELS)
def test_the_problem_is_the_loss_of_frozen_states_under_both_kinds_of_rows(name: str) -> None:
    bundle = upstream(name)
    start = StudentTables.of(bundle, NEW, Method("mean"))
    rows = torch.randn(len(start.tokens), start.tables["input"].shape[1], generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        states, labels = (
            torch.stack(tuple(map(torch.as_tensor, each))) for each in zip(*boundaries(bundle), strict=True)
        )
        problem = OutputProblem.of(bundle, NEW, start, states, labels)
        table = mean_of(upstream(name)).get_output_embeddings().weight.clone()  # rows of old tokens are the old ones
        table[list(start.tokens)] = rows
        others = [token for token in range(len(NEW)) if token not in start.tokens and not is_old(bundle, token)]
        logits = states @ table.T
        logits[:, others] = float("-inf")
        known = ~torch.isin(labels, torch.tensor(others, dtype=torch.long))
        expected = torch.nn.functional.cross_entropy(logits[known], labels[known])
    assert len(problem.states) == int(known.sum()) > 100 and problem.loss(rows) == pytest.approx(
        float(expected), rel=1e-4
    )


def is_old(bundle: Bundle, token: int) -> bool:
    entry = NEW.entries[token]
    return NEW.pieces[token] in bundle.decoder.pieces if entry is None else entry in bundle.decoder.ids


def test_states_are_taken_where_both_segmentations_have_read_the_same() -> None:
    bundle = upstream("llama")
    start = StudentTable.of(side_of(bundle.model, "decoder"), bundle.decoder, NEW)
    pairs = PredictedPairs(TEXT, bundle, "decoder", NEW, DE, TRAINING, start.tokens)
    batch = pairs.batch(np.arange(len(pairs)), 0)
    for row, old, new in batch.agreeing.tolist():
        before = batch.teacher.decoder_input_ids[row, 1 : old + 1].tolist()
        after = batch.student.decoder_input_ids[row, 1 : new + 1].tolist()
        assert bundle.decoder.decode(before) == NEW.decode(after)
    assert len(batch.agreeing) >= 0.95 * sum(1 for _ in boundaries(bundle))


def test_scipy_finds_no_better_rows() -> None:
    generator = torch.Generator().manual_seed(2)
    states, start = torch.randn(300, 6, generator=generator), torch.randn(4, 6, generator=generator)
    row = torch.randint(-4, 4, (300,), generator=generator).clamp(min=-1)
    old = torch.randn(300, generator=generator)
    problem = OutputProblem(states, old.abs() + 3, old, row, torch.zeros(4), None)
    weights = torch.tensor([1.0, 2.0, 30.0, 0.5])
    rows, (before, after) = problem.solve(start, weights)

    def penalised(flat: np.ndarray) -> float:
        tried = torch.tensor(flat, dtype=torch.float32).view(4, 6)
        return problem.loss(tried) + float((weights[:, None] * (tried - start) ** 2).sum() / 300)

    best = minimize(penalised, start.flatten().numpy(), method="Powell", options={"maxiter": 4000, "ftol": 1e-9})
    assert after < before
    assert penalised(rows.flatten().numpy()) <= best.fun + 1e-4


def test_the_distance_is_relative_to_the_norm() -> None:
    bundle = upstream("llama")
    decoder = side_of(bundle.model, "decoder")
    start = StudentTable.of(decoder, bundle.decoder, NEW)
    batch = NewTokenPairs(TEXT, bundle, "decoder", NEW, DE, TRAINING, start.tokens).batch(np.arange(5), 0)
    assert {int(batch.student.decoder_input_ids[row, place]) for row, _, place in batch.agreeing} <= set(start.tokens)
    settings = TokenDistillationSettings(layer=1, distance="relative")
    with torch.no_grad():
        module = TokenDistillationLoss(bundle.model, decoder, start, settings)
        teacher, student = module._decoder(batch)
        expected = sum(
            float((student[row, new] - teacher[row, old]).norm() / teacher[row, old].norm())
            for row, old, new in batch.agreeing.tolist()
        )
        assert float(module(batch)["distillation"]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_an_experiment_fits_the_rows_of_all_new_tokens(name: str, tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, continued(name, ("fitted",))))
    (_, steps) = pipeline.systems
    assert steps.distilled is not None and "other" in steps.distilled.inputs
    assert isinstance(steps.distilled.stage, FittedStage)
    bundle = begun_as_pretrained(steps.distilled, store)
    assert bundle.sequence_format(None).start == bundle.decoder.special["eos"], "the token between pretraining's texts"
    rows = LearnedEmbeddings.load(store.path(steps.distilled) / "decoder")
    vocabulary = Tokenizer.load(store.path(steps.distilled.inputs["vocabulary/decoder"]))
    assert rows.method == "fitted" and 5 < len(rows.tokens) <= len(vocabulary)
    record, evaluated = store.find(steps.distilled), store.find(steps.evaluate)
    assert record is not None and record.summary["fit"]["loss_after"] < record.summary["fit"]["loss_before"]
    assert evaluated is not None and evaluated.summary["bits_per_character"] > 0


def test_new_tokens_of_an_untied_model_get_output_embeddings_of_their_own(tmp_path: Path) -> None:
    """Other systems have the tied model, with which what was forgotten is compared."""
    config = continued("gpt2", ("fitted", "mean"))
    config = config.replace("initialiser: fitted", "initialiser: fitted, untie: true")
    config = config.replace("{name: plain, ", "{name: own-untied, untie: true, vocabulary: upstream}\n- {name: plain, ")
    pipeline, store = finish(written(tmp_path, config))
    models = {steps.system.name: Bundle.load(store.path(steps.finetune)).model for steps in pipeline.systems}
    tied = {name: side_of(model, "decoder").tied for name, model in models.items()}
    assert tied == {"own-untied": False, "plain": True, "fitted": False, "mean": True}
    by_name = {steps.system.name: steps for steps in pipeline.systems}
    own, fitted, plain = by_name["own-untied"], by_name["fitted"], by_name["plain"]
    assert fitted.distilled is not None and fitted.transfer is not None
    untied = fitted.transfer.inputs["model"]
    assert isinstance(untied.stage, UntieStage) and own.finetune.inputs["model"].fingerprint == untied.fingerprint
    assert fitted.pretrained is plain.pretrained is untied.inputs["model"]
    rows = LearnedEmbeddings.load(store.path(fitted.distilled) / "decoder")
    assert not torch.equal(rows.others["output"], rows.rows)
    transferred = side_of(Bundle.load(store.path(fitted.transfer)).model, "decoder")
    assert transferred.output is not None
    assert torch.equal(transferred.output.weight[rows.tokens], rows.others["output"])
    assert torch.equal(transferred.input.weight[rows.tokens], rows.rows)


def test_a_model_with_two_tables_is_untied_already(tmp_path: Path) -> None:
    config = continued("llama", ("mean",)).replace("initialiser: mean", "initialiser: mean, untie: true")
    (_, steps) = planned(written(tmp_path, config)).systems
    assert steps.system.untie
    assert steps.transfer is not None and steps.transfer.inputs["model"] == steps.pretrained


def test_an_encoder_decoder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    systems = "- {name: plain, vocabulary: upstream}\n- {name: mean, initialiser: mean, untie: true}\n"
    with pytest.raises(UserError, match="only a decoder's are") as caught:
        _ = planned(written(tmp_path, tiny(systems=systems))).systems
    assert caught.value.where == "system mean: untie"


def test_a_translator_s_new_tokens_are_fitted_too(tmp_path: Path) -> None:
    """mBART's output has a bias; its states depend on the source."""
    short = "{max_steps: 2, batch_size: 500, precision: fp32}"
    systems = "- {name: plain, vocabulary: upstream}\n- {name: fitted, initialiser: fitted}\n"
    pipeline, store = finish(written(tmp_path, tiny(systems=systems, sides="[decoder]", fitted_training=short)))
    step = pipeline.systems[1].distilled
    assert step is not None and (record := store.find(step)) is not None
    assert record.summary["fit"]["loss_after"] < record.summary["fit"]["loss_before"]
