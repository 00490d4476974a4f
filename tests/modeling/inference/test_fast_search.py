"""CTranslate2 in the place of transformers' search: the same outputs, also where the limit in bytes ends them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch

from finished import (
    Build,
    as_published_bundle,
    gpt2_bundle,
    llama_bundle,
    m2m100_bundle,
    mbart_bundle,
    separate_bundle,
    split_mbart_bundle,
    t5_bundle,
)
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.compute import continuation, outputs
from toys import english, german

LANGUAGES = Languages(source="en", target="de")
SENTENCES = 100
TRANSLATORS = [separate_bundle, as_published_bundle, mbart_bundle, split_mbart_bundle, m2m100_bundle]
SEARCHES = [
    *((build, beam) for build in TRANSLATORS for beam in (1, 4)),
    (t5_bundle, 1),
    pytest.param(t5_bundle, 4, marks=pytest.mark.slow),  # transformers' own search takes half a minute
]
SOURCES = [" ".join(line.split()[: 1 + place % 4]) for place, line in enumerate(english(SENTENCES, 5))]


def _settings(engine: str, beam: int, ratio: float = 2.5) -> MeasurementSettings:
    inputs = {"engine": engine, "beam": beam, "max_length_ratio": ratio}
    return MeasurementSettings.model_validate(inputs)


@pytest.mark.parametrize(("build", "beam"), SEARCHES)
def test_translations_and_their_probabilities_are_those_of_transformers(build: Build, beam: int) -> None:
    bundle = build()
    writers = [
        outputs.translator_by_engine(bundle, LANGUAGES, _settings(engine, beam))
        for engine in ("transformers", "ctranslate2")
    ]
    expected, result = (write.with_probabilities(SOURCES) for write in writers)
    same = [one for one, other in zip(expected, result, strict=True) if one.tokens == other.tokens]
    assert len(same) >= 0.99 * SENTENCES and len({output.text for output in same}) > 5
    for one, other in zip(expected, result, strict=True):
        if one.tokens == other.tokens:
            assert one.text == other.text and one.probabilities == pytest.approx(other.probabilities, abs=1e-4)
    scores = [
        corpus_scores([output.text for output in outputs], german(SENTENCES, 5), "de")["BLEU"].value
        for outputs in (expected, result)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)
    assert abs(writers[0].unfinished - writers[1].unfinished) <= 1


@pytest.mark.parametrize("beam", [1, 4])
def test_outputs_that_the_limit_ends_are_those_of_transformers(beam: int) -> None:
    bundle = separate_bundle()
    writers: list[Any] = [
        outputs.translator_by_engine(bundle, LANGUAGES, _settings(engine, beam, ratio=0.01))
        for engine in ("transformers", "ctranslate2")
    ]
    expected, result = (write(SOURCES) for write in writers)
    assert sum(a == b for a, b in zip(expected, result, strict=True)) >= 0.99 * SENTENCES
    assert writers[0].unfinished == pytest.approx(writers[1].unfinished, abs=1) and writers[0].unfinished > 5
    assert (writers[1].again > 0) == (beam > 1), "only a beam's limit needs transformers"


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("build", [gpt2_bundle, llama_bundle])
def test_continuations_are_those_of_transformers(build: Build, beam: int) -> None:
    bundle, prompts = build(), [" ".join(line.split()[:1]) for line in german(SENTENCES, 5)]
    writers = [
        continuation.continuer_by_engine(bundle, LANGUAGES, _settings(engine, beam))
        for engine in ("transformers", "ctranslate2")
    ]
    expected, result = (write(prompts) for write in writers)
    assert sum(a == b for a, b in zip(expected, result, strict=True)) >= 0.99 * SENTENCES
    assert len(set(result)) > 3
    assert abs(writers[0].unfinished - writers[1].unfinished) <= 1


@pytest.mark.parametrize("build", [separate_bundle, mbart_bundle, t5_bundle, m2m100_bundle, gpt2_bundle, llama_bundle])
def test_the_model_is_left_as_it_is(build: Build) -> None:
    """It is trained further: neither its configuration nor its modules may change, and its weights may."""
    bundle = build()
    config, weights = bundle.model.config.to_dict(), deepcopy(bundle.model.state_dict())
    build_writer: Any = (
        outputs.translator_by_engine if "encoder" in bundle.tokenizers else continuation.continuer_by_engine
    )
    write = build_writer(bundle, LANGUAGES, _settings("ctranslate2", 1))
    assert bundle.model.config.to_dict() == config
    assert bundle.model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in bundle.model.state_dict().items())
    before = write(SOURCES[:8])
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter.add_(torch.full_like(parameter, 0.5))
    assert write(SOURCES[:8]) == before, "what was loaded is a copy"


def test_a_models_own_search_settings_are_followed() -> None:
    bundle: Bundle = separate_bundle()
    bundle.model.generation_config.no_repeat_ngram_size = 2
    bundle.model.generation_config.length_penalty = 0.5
    plain = outputs.translator_by_engine(separate_bundle(), LANGUAGES, _settings("transformers", 4))(SOURCES)
    expected, result = (
        outputs.translator_by_engine(bundle, LANGUAGES, _settings(engine, 4))(SOURCES)
        for engine in ("transformers", "ctranslate2")
    )
    assert sum(a == b for a, b in zip(expected, result, strict=True)) >= 0.99 * SENTENCES
    assert result != plain
