"""New rows of rarely met tokens: which they are, and that a finetuning treats them, and no others, in its own way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, RareTokenSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.embeddings.initialisers.new_rows import save_matrices
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.pipeline.compute.finetune import run
from subgraft.pipeline.stages.training import FinetuneStage, FirstPhase, NewRows
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.rare_rows import RareRows, count_tokens
from toys import (
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    marian,
    mbart,
    multilingual_tokenizer,
)
from watched import KilledError, Watched

LANGUAGES = Languages(source="en", target="de")
PAIRS = list(zip(english(60, 3), german(60, 3), strict=True))
TEXTS: dict[SideName, list[str]] = {"encoder": english(60, 3), "decoder": german(60, 3)}
BELOW, STEPS = 6, 5
TABLE = "model.decoder.embed_tokens.weight"
DECODER: tuple[SideName, ...] = ("decoder",)


@dataclass(frozen=True)
class Made:
    """What a finetuning is given, and which tokens of the decoder are new, rare or not."""

    inputs: dict[str, Path]
    rare: list[int]
    met: list[int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    place = tmp_path_factory.mktemp("inputs")
    for split, count in (("train", 60), ("dev", 3), ("test", 3)):
        for column, language in enumerate(("en", "de")):
            (place / f"{split}.{language}").write_text("".join(f"{pair[column]}\n" for pair in PAIRS[:count]))
    cleaning = Cleaning(drop_held_out=False, deduplicate=False)
    build(CorpusSource(folder=str(place)), LANGUAGES, cleaning, place / "corpus")
    target, source = learn(german(400, 7), kind="unigram", size=140), german_tokenizer()
    before: dict[SideName, Tokenizer] = {"encoder": english_tokenizer(), "decoder": source}
    Bundle(marian(), before["encoder"], source).save(place / "upstream")
    transplanted = transplant(marian(), before, {"decoder": target}, Method("mean"))
    Bundle(transplanted.model, before["encoder"], target).save(place / "model")
    save_matrices(transplanted.matrices, place / "model")
    counts = Counter(token for _, text in PAIRS for token in target.encode(text))
    new = align(source, target).unseen
    inputs = {"model": place / "model", "corpus": place / "corpus", "upstream": place / "upstream"}
    return Made(inputs, [t for t in new if counts[t] < BELOW], [t for t in new if counts[t] >= BELOW])


def finetune(
    place: Path,
    made: Made,
    rare: RareTokenSettings | None,
    die_at: int | None = None,
    copy_shared_tokens: bool = True,
    attached: bool = False,
    share: float | None = None,
    new_rate: float | None = None,
    steps: int = STEPS,
) -> dict[str, torch.Tensor]:
    """The weights after a finetuning, or after one that went on where it was killed."""
    training = FinetuneSettings(
        epochs=9,
        max_steps=steps,
        batch_size=300,
        max_length=40,
        learning_rate=0.01,
        embedding_learning_rate=0.03,
        new_embedding_learning_rate=new_rate,
        rare_tokens=rare,
        warmup_steps=1,
        dev_sentences=2,
    )
    recipe = FinetuneStage(
        languages=LANGUAGES,
        training=training,
        seed=1,
        embedding_learning_rate_sides=DECODER,
        new_rows=NewRows(sides=DECODER, copy_shared_tokens=copy_shared_tokens) if rare or new_rate else None,
        tie_to_sources=DECODER if attached else (),
        first_phase=FirstPhase(share=share, sides=DECODER) if share else None,
    )
    out = place / "out"
    out.mkdir(parents=True, exist_ok=True)
    if die_at is not None:
        with pytest.raises(KilledError):
            run(recipe, made.inputs, out, Watched(place / "work", die_at))
    run(recipe, made.inputs, out, Watched(place / "work", None))
    return load_file(out / "model.safetensors")


def moved(made: Made, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """How far each row of the decoder's table has gone [V]."""
    before: torch.Tensor = load_file(made.inputs["model"] / "model.safetensors")[TABLE]
    distances: torch.Tensor = (weights[TABLE] - before).norm(dim=1)
    return distances


def best_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the weights of the last step, whatever the dev scores of so small a model are."""
    monkeypatch.setattr("subgraft.training.loop.Trainer._use_best", lambda trainer: None)


def test_there_are_new_rows_of_both_kinds(made: Made) -> None:
    assert len(made.rare) > 5 and len(made.met) > 5


def test_rare_systems_can_be_frozen_and_the_others_train(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_is_last(monkeypatch)
    distance = moved(made, finetune(tmp_path, made, RareTokenSettings(min_count=BELOW, learning_rate_factor=0.0)))
    assert (distance[made.rare] == 0).all()
    assert (distance[made.met] > 0).all()
    seen = sorted(set(range(len(distance))) - {*made.rare, *made.met, 1})
    assert (distance[seen] > 0).all(), "all but the padding row"


def test_new_embeddings_have_a_learning_rate_of_their_own(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_is_last(monkeypatch)
    plain = finetune(tmp_path / "plain", made, None, steps=1)
    faster = finetune(tmp_path / "faster", made, None, steps=1, new_rate=0.15)  # five times that of the matrix
    new = [*made.rare, *made.met]
    torch.testing.assert_close(moved(made, faster)[new], 5 * moved(made, plain)[new])
    old = sorted(set(range(len(plain[TABLE]))) - set(new))
    assert torch.equal(faster[TABLE][old], plain[TABLE][old])
    rare = RareTokenSettings(min_count=BELOW, learning_rate_factor=0.5)
    both = finetune(tmp_path / "both", made, rare, steps=1, new_rate=0.15)
    torch.testing.assert_close(moved(made, both)[made.rare], 2.5 * moved(made, plain)[made.rare])
    torch.testing.assert_close(moved(made, both)[made.met], 5 * moved(made, plain)[made.met])


def test_where_no_system_was_kept_all_subwords_are_new(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_is_last(monkeypatch)
    setting = RareTokenSettings(min_count=10**6, learning_rate_factor=0.0)
    distance = moved(made, finetune(tmp_path, made, setting, copy_shared_tokens=False))
    target = Bundle.load(made.inputs["model"]).decoder
    assert (distance[[i for i, entry in enumerate(target.entries) if entry is not None]] == 0).all()
    assert distance[target.special["eos"]] > 0


def test_settings_that_say_nothing_change_not_a_bit(made: Made, tmp_path: Path) -> None:
    plain = finetune(tmp_path / "plain", made, None)
    idle = finetune(tmp_path / "idle", made, RareTokenSettings(min_count=BELOW))
    assert all(torch.equal(plain[name], idle[name]) for name in plain)


@pytest.mark.parametrize("how", [{}, {"share": 0.4}, {"attached": True}], ids=["plain", "phases", "attached"])
def test_a_killed_finetuning_ends_with_the_same_weights(
    how: dict[str, bool | float], made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best_is_last(monkeypatch)
    settings = RareTokenSettings(min_count=BELOW, learning_rate_factor=0.5, l2_to_init=8.0)
    whole = finetune(tmp_path / "whole", made, settings, **how)  # type: ignore[arg-type]
    resumed = finetune(tmp_path / "killed", made, settings, die_at=4, **how)  # type: ignore[arg-type]
    plain = finetune(tmp_path / "plain", made, None, **how)  # type: ignore[arg-type]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    held, free = moved(made, whole)[made.rare], moved(made, plain)[made.rare]
    assert (held < free).float().mean() > 0.9


def test_the_pull_is_the_stronger_the_rarer_the_token(made: Made) -> None:
    bundle, upstream = Bundle.load(made.inputs["model"]), Bundle.load(made.inputs["upstream"])
    settings = RareTokenSettings(min_count=BELOW, learning_rate_factor=0.5, l2_to_init=2.0)
    rare = RareRows.find(settings, 1.0, DECODER, True, upstream.tokenizers, bundle.tokenizers, TEXTS)
    (update,) = rare.updates(bundle.model)
    assert rare.sizes == {"decoder": len(made.rare)}
    assert update.rows.tolist() == made.rare and (update.factor == 0.5).all()
    counts = count_tokens(bundle.decoder, [target for _, target in PAIRS])
    expected = [2.0 * (BELOW - counts[token]) / BELOW for token in made.rare]
    np.testing.assert_allclose(update.l2_to_init.numpy(), expected, rtol=1e-6)
    assert update.table is side(bundle.model, "decoder").input.weight, "tied: one table, once"
    assert torch.equal(update.start, update.table.detach()[made.rare])


def test_a_table_of_both_sides_counts_the_text_of_both() -> None:
    target = learn(english(400, 7) + german(400, 7), kind="unigram", size=220, like=multilingual_tokenizer())
    both: dict[SideName, Tokenizer] = {"encoder": target, "decoder": target}
    upstream: dict[SideName, Tokenizer] = dict.fromkeys(both, multilingual_tokenizer())
    model = transplant(mbart(), upstream, both, Method("mean")).model
    settings = RareTokenSettings(min_count=BELOW, l2_to_init=1.0)
    rare = RareRows.find(settings, 1.0, ("encoder", "decoder"), True, upstream, both, TEXTS)
    (update,) = rare.updates(model)
    counts = count_tokens(target, [text for pair in PAIRS for text in pair])
    unseen = align(multilingual_tokenizer(), target).unseen
    assert update.rows.tolist() == [token for token in unseen if counts[token] < BELOW]
    alone = RareRows.find(settings, 1.0, DECODER, True, upstream, both, TEXTS)
    assert float(alone.updates(model)[0].l2_to_init.sum()) > float(update.l2_to_init.sum()) > 0
