"""What holds for every family that configurations build: weights by seed, saving, transfer; losses and generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.loading import load
from subgraft.config.models import SETTINGS_OF_FAMILY
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, config_dict, count_parameters, family_named, family_of
from subgraft.modeling.sides import shares_table, side, side_names, without_dropout
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqView, token_loss
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import (
    SHAPE,
    bart,
    cased_tokenizer,
    english,
    fitted_tokenizer,
    german,
    joint_tokenizer,
    m2m100,
    masking_tokenizer,
    multilingual_tokenizer,
    one_stack,
    sequence_format,
    t5,
)

LANGUAGES = Languages(source="en", target="de")
SIDES: tuple[SideName, SideName] = ("encoder", "decoder")
BRANCHES = {"branch_layers": 1, "branch_width": 8, "branch_heads": 2, "branch_ffn_dim": 8}
# Where a family cannot be built from SHAPE alone.
MORE: Mapping[str, Mapping[str, int]] = {
    "llama": {"key_value_heads": 1},
    "branched": BRANCHES,
    "knowledgeable": {"knowledge_layers": 1, "entity_width": 8, "entity_heads": 2},
}
# Settings that make another model of a family.
VARIANTS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "mbart, narrow": ("mbart", {"embedding_width": 8}),
    "electra": ("bert", {"embedding_width": 8}),
    "t5 1.1": ("t5", {"tied": False, "gated": True}),
    "llama, tied": ("llama", {"tied": True}),
}
WORDPIECE = ("bert", "electra", "ernie", "branched", "knowledgeable")
every_family = pytest.mark.parametrize("family", [*SETTINGS_OF_FAMILY, *VARIANTS])


def vocabulary_of(family: str) -> Tokenizer:
    return cased_tokenizer() if family in WORDPIECE else multilingual_tokenizer()


def settings_of(name: str) -> Any:
    """The settings of a small model in a configuration."""
    family, more = VARIANTS.get(name, (name, MORE.get(name, {})))
    settings: Any = SETTINGS_OF_FAMILY[family]
    shape = SHAPE if "encoder_layers" in settings.model_fields else one_stack(SHAPE, "decoder_layers")
    known = {name: value for name, value in shape.items() if name in settings.model_fields}
    return settings(**known, **more)


def built(family: str, seed: int = 1) -> PreTrainedModel:
    settings, tokenizer = settings_of(family), vocabulary_of(family)
    model = FAMILIES[settings.model_type].build(settings, tokenizer, tokenizer, seed)
    return model.eval()  # type: ignore[no-any-return]


def logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """Of a text that both sides read, where there are two."""
    both = {"decoder_input_ids": ids} if len(side_names(model)) == 2 else {}
    with torch.no_grad():
        made: Tensor = model(ids, **both).logits
    return made


@every_family
def test_the_seed_decides_the_weights_and_leaves_the_callers_random_state_alone(family: str) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first, again, other = built(family), built(family), built(family, seed=2)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    tables = [side(model, "decoder").input.weight for model in (first, other)]
    settings = settings_of(family)
    assert not torch.equal(*tables) and tables[0].shape == (len(vocabulary_of(family)), settings.width_of_rows)
    assert side_names(first) == settings.sides
    assert side(first, "decoder").tied == getattr(settings, "tied", True)
    special, known = vocabulary_of(family).special, ("pad", *(("bos", "eos") * (side_names(first) == ("decoder",))))
    assert all(getattr(first.config, f"{role}_token_id") == special[role] for role in known)


@every_family
def test_a_saved_one_is_loaded_as_it_was_and_counted_without_it(family: str, tmp_path: Path) -> None:
    model, tokenizer = built(family), vocabulary_of(family)
    Bundle(model, tokenizer, tokenizer).save(tmp_path)
    again = Bundle.load(tmp_path).model
    ids = torch.from_numpy(tokenizer.ordinary_ids[5:15].astype(np.int64))[None]
    assert torch.equal(logits(again, ids), logits(model, ids))
    assert shares_table(again) == shares_table(model) and side(again, "decoder").tied == side(model, "decoder").tied
    for config in (again.config.to_dict(), config_dict(settings_of(family), len(tokenizer), len(tokenizer))):
        assert count_parameters(config).total == again.num_parameters()
    if type(model).__module__.startswith("transformers."):
        standard = type(model).from_pretrained(tmp_path).eval()
        assert torch.equal(logits(standard, ids), logits(model, ids)), "transformers alone reads it"


def transferred(model: PreTrainedModel, old: Tokenizer, new: Tokenizer, method: str, place: Path) -> PreTrainedModel:
    Bundle(model, old, old).save(place / "old")
    transfer(place / "old", dict.fromkeys(side_names(model), new), Method(method), place / "new")
    return Bundle.load(place / "new").model


def check_seen_tokens(model: PreTrainedModel, old: Tokenizer, method: str, place: Path) -> PreTrainedModel:
    """Compare the logits of one text of seen tokens, in the ids of either vocabulary; the model with new tokens."""
    kind, size = ("wordpiece", 200) if old is cased_tokenizer() else ("unigram", 180)
    new = learn(german(400, 7), kind=kind, size=size, like=old)  # type: ignore[arg-type]
    made = transferred(model, old, new, method, place)
    assert shares_table(made) == shares_table(model) and side(made, "decoder").tied == side(model, "decoder").tied
    origins = torch.from_numpy(align(old, new).origins)
    seen = (origins >= 0).nonzero().flatten()
    assert len(seen) > 40
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(1))[:12]][None]
    before, after = logits(model, origins[chosen]), logits(made, chosen)
    torch.testing.assert_close(after[..., seen], before[..., origins[seen]], rtol=0, atol=1e-6)
    return made


@pytest.mark.parametrize("method", ["mean", "avg", "random-matched"])
@every_family
def test_seen_tokens_have_the_logits_they_had(family: str, method: str, tmp_path: Path) -> None:
    check_seen_tokens(built(family), vocabulary_of(family), method, tmp_path)


@dataclass(frozen=True)
class Case:
    """A model of two sides, with weights that tests see, its vocabulary, and whether it learns to denoise."""

    build: Callable[[], PreTrainedModel]
    vocabulary: Callable[[], Tokenizer]
    denoises: bool = False

    def examples(self) -> Any:
        tokenizer, config = self.vocabulary(), self.build().config.to_dict()
        form = sequence_format(config, tokenizer, tokenizer, None if self.denoises else LANGUAGES)
        if not self.denoises:
            return Translation(list(zip(english(30), german(30), strict=True)), tokenizer, tokenizer, form, 40)
        blocks = Blocks(english(60), tokenizer, form, family_of(config).sentence_separator(tokenizer), 40)
        return Denoising(blocks, DenoisingSettings(noises={"infilling": 0.3, "permutation": 1.0}), seed=1)

    @property
    def padding(self) -> tuple[int, int]:
        return (self.vocabulary().special["pad"],) * 2


CASES = {
    "bart": Case(bart, masking_tokenizer, denoises=True),
    "bart, bytes": Case(
        lambda: bart(kind="byte-level-bpe"), lambda: masking_tokenizer("byte-level-bpe"), denoises=True
    ),
    "t5": Case(t5, joint_tokenizer),
    "t5 1.1": Case(lambda: t5(tied=False), joint_tokenizer),
    "m2m_100": Case(m2m100, multilingual_tokenizer),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_the_loss_is_what_transformers_makes_of_labels(case: Case) -> None:
    model, batch = case.build(), Seq2SeqData(case.examples(), *case.padding).batch(np.arange(6), 0)
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert (token_loss(model, batch) / batch.counts["loss"]).item() == pytest.approx(theirs.item(), rel=1e-6)


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("case", [name for name in CASES if "bytes" not in name])
def test_a_generator_learns_from_its_objective(case: str, name: SideName) -> None:
    chosen, generator = CASES[case], Generator("patt", SHAPE["d_model"])
    tokenizer, model = chosen.vocabulary(), without_dropout(chosen.build())
    view = Seq2SeqView(chosen.examples(), name, chosen.padding)
    loss = GeneratorLoss(model, generator, view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    sums = loss(Simulator(view, tokenizer, settings, 10, 1).batch(np.arange(6), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
    still = Simulator(view, tokenizer, ResegmentationSettings(merge_rate=0, split_rate=0), 10, 1)
    assert loss(still.batch(np.arange(4), 0))["distillation"].item() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("method", ["mean", "random-matched"])
@pytest.mark.parametrize(
    ("build", "vocabulary"),
    [(bart, masking_tokenizer), (lambda: t5(tied=False), joint_tokenizer)],
    ids=["bart", "t5 1.1"],
)
def test_seen_tokens_keep_their_bias_and_their_row_of_an_untied_projection(
    build: Callable[[], PreTrainedModel], vocabulary: Callable[[], Tokenizer], method: str, tmp_path: Path
) -> None:
    check_seen_tokens(build(), vocabulary(), method, tmp_path)


ONE_TABLE = [name for name, settings in SETTINGS_OF_FAMILY.items() if settings.one_table and len(settings.sides) == 2]


@pytest.mark.parametrize("family", ONE_TABLE)
def test_sides_with_one_table_cannot_have_vocabularies_of_their_own(family: str, tmp_path: Path) -> None:
    config = written(tmp_path, tiny(model=_configured(family)))
    with pytest.raises(UserError, match="has one table for both sides"):
        load(config, Experiment)
    model, old = built(family), vocabulary_of(family)
    Bundle(model, old, old).save(tmp_path / "old")
    with pytest.raises(UserError, match=r"downstream\.shared: true"):
        transfer(tmp_path / "old", {"decoder": fitted_tokenizer()}, Method("mean"), tmp_path / "new")
    for sizes in ({"decoder": 44}, {"encoder": 44, "decoder": 45}):
        with pytest.raises(UserError, match="one embedding matrix") as caught:
            family_named(family).with_vocabularies(model.config.to_dict(), sizes)  # type: ignore[arg-type]
        assert "downstream.shared: true" in str(caught.value)


def _configured(family: str) -> str:
    return f"{{family: {family}, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}}"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["t5", "m2m_100"])
def test_a_whole_experiment(family: str, tmp_path: Path) -> None:
    config = tiny(
        model=_configured(family),
        pretrain="{epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
        sides="[encoder, decoder]",
        downstream="{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
    )
    pipeline, store = finish(written(tmp_path, config))
    assert store.path(pipeline.report).is_dir()
