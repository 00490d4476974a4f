"""A model pretrained with an allocated vocabulary: its tables, its languages' shares, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import TINY, finish, finish_steps, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.contrib.allocation.union import union
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.estimates.estimate import Estimate, estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from toys import english, german

MANY = (
    "corpora={upstream: {texts: {en: {files: {train: [a.en]}}, de: {files: {train: [a.de]}}}},"
    " downstream: {folder: downstream}}",
    "model.family=mbart",
    "upstream.languages=all",
    "upstream.objectives=[{kind: denoising}]",
    "pretrain.epochs=1",
)
IMPORTED = (*MANY, "upstream.vocabulary_path=given")


def place(folder: Path, codes: tuple[str, ...] = ("de_XX", "en_XX"), mask: bool = True) -> Path:
    config = written(folder, TINY)
    for code, lines in (("en", english(80, 3)), ("de", german(10, 4))):
        (folder / f"a.{code}").write_text("".join(f"{line}\n" for line in lines))
    learnt = learn([*english(200, 1), *german(200, 1)], kind="unigram", size=110)
    pieces = {piece: -5.0 - len(piece) / 10 for i, piece in enumerate(learnt.pieces) if i not in learnt.special_ids}
    special = special_tokens(wordpiece=False, mask=mask, languages=codes, like=None)
    union({"all": pieces}, special).save(folder / "given")
    record = {"total": 120, "size": 112, "language_exponent": 0.5, "capacity_exponent": 0.7, "shares": {}, "sizes": {}}
    (folder / "given" / "allocation.json").write_text(json.dumps(record | {"alp": {}, "value": -1.0, "bound": -1.0}))
    return config


def test_a_model_is_pretrained_with_it_and_languages_are_drawn_as_it_was_allocated(tmp_path: Path) -> None:
    pipeline, store = finish(place(tmp_path), *IMPORTED)
    inputs = Tokenizer.load(tmp_path / "given")
    assert Tokenizer.load(store.path(pipeline.models.pretrained)).fingerprint == inputs.fingerprint
    recipe = pipeline.models.pretrained.stage.model_dump()
    assert recipe["language_exponent"] == 0.5
    corpus = Corpus.open(store.path(pipeline.inputs.upstream_corpus))
    assert {language: len(lines) for language, lines in corpus.texts("train")} == {"en": 80, "de": 10}
    request = ObjectiveInputs(None, corpus, pipeline.experiment.languages, pipeline.experiment.pretrain, 1, None, 0.5)  # type: ignore[arg-type]
    texts = dict(request.texts())
    assert {language: len(lines) for language, lines in texts.items()} == {"en": 80, "de": 28}
    assert set(texts["de"]) == set(german(10, 4)) and list(texts["en"]) == english(80, 3)


def test_a_plan_knows_its_size_before_it_is_imported(tmp_path: Path) -> None:
    pipeline = Pipeline(load(place(tmp_path), Experiment, IMPORTED), tmp_path)

    def pretraining() -> Estimate:
        store = Store(tmp_path / "home")
        every = estimates(store, make_plan(store, [pipeline.report]), Runtime())
        (one,) = (each for each in every if each.step.fingerprint == pipeline.models.pretrained.fingerprint)
        return one

    before = pretraining()
    finish_steps(list(pipeline.models.pretrained.inputs.values()), tmp_path)
    after = pretraining()
    assert before.exact and before.parameters == after.parameters


def test_what_the_configuration_says_goes_before_the_allocation(tmp_path: Path) -> None:
    config = place(tmp_path)
    inputs = Pipeline(load(config, Experiment, [*IMPORTED, "upstream.language_exponent=1.0"]), tmp_path)
    assert inputs.models.pretrained.stage.model_dump()["language_exponent"] == 1.0
    without = Pipeline(load(config, Experiment, MANY), tmp_path)
    assert without.models.pretrained.stage.model_dump()["language_exponent"] is None


def test_a_vocabulary_that_the_model_cannot_have_is_refused(tmp_path: Path) -> None:
    config = place(tmp_path, codes=("en_XX",))
    with pytest.raises(UserError, match="it has no token de_XX"):
        _ = Pipeline(load(config, Experiment, IMPORTED), tmp_path).models.pretrained
    with pytest.raises(UserError, match="no such directory"):
        _ = Pipeline(load(config, Experiment, [*MANY, "upstream.vocabulary_path=nowhere"]), tmp_path).models.pretrained


def test_a_vocabulary_without_a_mask_cannot_be_denoised_with(tmp_path: Path) -> None:
    config = place(tmp_path, mask=False)
    with pytest.raises(UserError, match="no mask token"):
        _ = Pipeline(load(config, Experiment, IMPORTED), tmp_path).models.pretrained


def test_pairs_are_not_drawn_by_language_and_a_checkpoint_has_its_own(tmp_path: Path) -> None:
    config = place(tmp_path)
    with pytest.raises(UserError, match="language_exponent is for monolingual text, and translation needs pairs"):
        load(config, Experiment, ["upstream.language_exponent=0.7"])
    with pytest.raises(UserError, match="a checkpoint has its own vocabulary"):
        load(config, Experiment, ["upstream.vocabulary_path=given", "upstream.checkpoint=somewhere"])
