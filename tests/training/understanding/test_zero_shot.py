"""Classes without finetuning: perplexities and beam search against brute force and transformers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelled import write_files
from recurrent import branched
from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.models import GPT2Settings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.training.objectives.labelled import ZeroShotSettings
from subgraft.training.understanding.zero_shot import Trie, ZeroShot, beam_search
from toys import SHAPE, build_bert, cased_tokenizer, english, english_tokenizer

WORDS = {"long": "the old house", "short": "the house", "none": "a small dog and a cat"}
TEXTS = english(7, 5)
BY_PERPLEXITY = ZeroShotSettings(template="{label} : {text}", words=WORDS)
BY_GENERATION = ZeroShotSettings(template="{text} {label}", words=WORDS, by="generation")


def gpt2() -> Bundle:
    tokenizer = english_tokenizer()
    shape = GPT2Settings(d_model=16, layers=2, attention_heads=2, ffn_dim=32, dropout=0.0, max_positions=64)
    model: Any = family_named("gpt2").build(shape, tokenizer, tokenizer, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
    return Bundle(model.eval(), tokenizer, tokenizer)


def ernie3() -> Bundle:
    return Bundle(branched(), cased_tokenizer(), cased_tokenizer())


def _log_likelihoods(bundle: Bundle, tokens: list[int]) -> torch.Tensor:
    """Of each token after the first, by the model's own class."""
    model: Any = bundle.model
    more = {"branch": "nlg"} if model.config.model_type == "branched" else {}
    with torch.no_grad():
        logits = model(torch.tensor([tokens]), **more).logits[0].double()
    chosen: torch.Tensor = logits.log_softmax(dim=1)[torch.arange(len(tokens) - 1), tokens[1:]]
    return chosen


def _separator(bundle: Bundle) -> int:
    configured = bundle.model.config.bos_token_id
    return bundle.decoder.special["eos"] if configured is None else int(configured)


@pytest.mark.parametrize("make", [gpt2, ernie3])
def test_scores_are_log_likelihoods_per_token_of_each_filled_template(make: Any) -> None:
    bundle = make()
    scores = ZeroShot(bundle, BY_PERPLEXITY, list(WORDS)).scores(TEXTS)
    end = _separator(bundle)
    for text, row in zip(TEXTS, scores, strict=True):
        for (label, words), score in zip(WORDS.items(), row.tolist(), strict=True):
            (ids,) = bundle.decoder.encode_batch([f"{words} : {text}"])
            expected = float(_log_likelihoods(bundle, [end, *ids, end]).mean())
            assert score == pytest.approx(expected, abs=1e-5), label


@pytest.mark.parametrize("make", [gpt2, ernie3])
def test_beam_search_finds_the_best_continuation_among_all(make: Any) -> None:
    bundle = make()
    scores = ZeroShot(bundle, BY_GENERATION, list(WORDS)).scores(TEXTS)
    end = _separator(bundle)
    for text, row in zip(TEXTS, scores, strict=True):
        filled = bundle.decoder.encode_batch([f"{text} {words}" for words in WORDS.values()])
        shared = next(at for at in itertools.count() if len({tuple(ids[: at + 1]) for ids in filled}) > 1)
        for ids, score in zip(filled, row.tolist(), strict=True):
            expected = float(_log_likelihoods(bundle, [end, *ids, end])[shared:].mean())
            assert score == pytest.approx(expected, abs=1e-5)


def test_beams_are_those_of_transformers_with_allowed_tokens() -> None:
    """GPT-2's own beam search, which may write nothing outside of the trie."""
    bundle = gpt2()
    model: Any = bundle.model
    end = _separator(bundle)
    classifier = ZeroShot(bundle, BY_GENERATION, list(WORDS))
    for text in TEXTS:
        filled = bundle.decoder.encode_batch([f"{text} {words}" for words in WORDS.values()])
        shared = next(at for at in itertools.count() if len({tuple(ids[: at + 1]) for ids in filled}) > 1)
        prompt, trie = [end, *filled[0][:shared]], Trie.of([[*ids[shared:], end] for ids in filled])

        def allowed(row: int, ids: torch.Tensor, start: int = len(prompt), root: Trie = trie) -> list[int]:
            del row
            node = root
            for token in ids[start:].tolist():
                if token not in node.after:
                    return [end]
                node = node.after[token]
            return list(node.after) or [end]

        written = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            num_beams=8,
            max_new_tokens=20,
            eos_token_id=end,
            pad_token_id=end,
            do_sample=False,
            prefix_allowed_tokens_fn=allowed,
        )[0, len(prompt) :].tolist()
        best = int(np.argmax(classifier.scores([text])[0]))
        chosen = [*filled[best][shared:], end]
        assert written[: len(chosen)] == chosen


def test_fewer_beams_than_classes_may_miss_the_best() -> None:
    """One beam follows the likelier first token into the worse of two continuations."""
    likelihoods = {(): {1: -1.0, 2: -1.1}, (1,): {3: -9.0}, (2,): {3: -0.1}}

    def next_tokens(several: list[list[int]]) -> torch.Tensor:
        rows = torch.full((len(several), 4), -99.0)
        for row, tokens in enumerate(several):
            for token, value in likelihoods[tuple(tokens)].items():
                rows[row, token] = value
        return rows

    trie = Trie.of([[1, 3], [2, 3]])
    assert beam_search(next_tokens, trie, 1) == pytest.approx({0: -5.0})
    assert beam_search(next_tokens, trie, 2) == pytest.approx({0: -5.0, 1: -0.6})


def test_a_text_that_is_too_long_loses_its_end() -> None:
    bundle = gpt2()
    classifier = ZeroShot(bundle, BY_PERPLEXITY, list(WORDS))
    text = " ".join(TEXTS * 5)
    candidates = classifier._candidates(text)
    assert max(map(len, candidates)) <= 62 and classifier.truncated == 1
    assert np.isfinite(classifier.scores([text])[0]).all()
    template = ZeroShotSettings(template=f"{' '.join(TEXTS * 5)} {{label}} {{text}}", words=WORDS)
    with pytest.raises(UserError, match="the template is longer than the 62 tokens"):
        ZeroShot(bundle, template, list(WORDS)).scores(["a"])


def test_a_model_that_does_not_write_and_words_of_no_class_are_refused() -> None:
    bert = Bundle(build_bert(cased_tokenizer(), seed=1, **SHAPE), cased_tokenizer(), cased_tokenizer())
    with pytest.raises(UserError, match="the family bert does not continue texts"):
        ZeroShot(bert, BY_PERPLEXITY, list(WORDS))
    with pytest.raises(UserError, match="'none' is not a class"):
        ZeroShot(gpt2(), BY_PERPLEXITY, ["long", "short"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"template": "{text}"}, r"template needs \{label\}"),
        ({"template": "{label}"}, r"template needs \{text\}"),
        ({"template": "{label} {text}", "by": "generation"}, r"must end with \{label\}"),
        ({"template": "{label} {text}", "words": {"a": "x", "b": "x"}}, "two classes have the same words"),
    ],
)
def test_templates_have_places(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ZeroShotSettings(**settings)


def _config(place: Path, **sections: str) -> Path:
    source = write_files("classification", place / "labelled", {"train": 40, "dev": 8, "test": 8})
    source["labelled"]["folder"] = "labelled"
    (place / "texts").mkdir()
    for split, lines in (("train", english(60)), ("dev", english(4, 9))):
        (place / "texts" / f"{split}.en").write_text("\n".join(lines) + "\n")
    shape = "{family: branched, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128, "
    inputs = {
        "task": "classification",
        "languages": "{source: en, target: en}",
        "labels": "{zero_shot: {template: '{text} is {label}', words: {long: house, short: dog}, by: generation}}",
        "corpora": f"{{upstream: {{folder: texts}}, downstream: {json.dumps(source)}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": "{corpus: upstream, objectives: [{kind: masked}, {kind: causal}], "
        "vocabulary: {kind: wordpiece, size: 90, byte_fallback: false}}",
        "downstream": "{corpus: downstream, vocabulary: {kind: wordpiece, size: 110, byte_fallback: false}}",
        "model": shape + "branch_layers: 1, branch_width: 8, branch_heads: 2, branch_ffn_dim: 8}",
        "pretrain": "{max_steps: 6, batch_size: 500, max_length: 64, precision: fp32}",
        "generator_training": "{max_steps: 4, batch_size: 500, max_length: 64, precision: fp32}",
        "finetune": "{epochs: 1, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 8}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 8, bootstrap_samples: 20}",
        "systems": "[{name: old, vocabulary: upstream}, {name: ours, initialiser: patt, kd_weight: 0.5}]",
    }
    return written(place, tiny(**inputs | sections))


@pytest.mark.slow
def test_systems_are_judged_without_finetuning(tmp_path: Path) -> None:
    pipeline, store = finish(_config(tmp_path))
    for steps in pipeline.systems:
        before, after = (
            {name: each.clone() for name, each in Bundle.load(store.path(step)).model.state_dict().items()}
            for step in (steps.transfer or pipeline.models.pretrained, steps.finetune)
        )
        assert before.keys() == after.keys() and all(torch.equal(each, after[name]) for name, each in before.items())
        evaluated = store.path(steps.evaluate)
        said = (evaluated / "hypotheses.txt").read_text().splitlines()
        assert len(said) == 8 and {*said} <= {"long", "short"}
        scores = json.loads((evaluated / "evaluation.json").read_text())["scores"]
        wanted = (evaluated / "references.txt").read_text().splitlines()
        assert scores["accuracy"]["value"] == pytest.approx(
            100 * np.mean([a == b for a, b in zip(said, wanted, strict=True)])
        )
    assert "accuracy" in (store.path(pipeline.report) / "report.md").read_text()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("systems.0.train=head", "finetunes nothing; leave out train"),
        ("labels.head={kind: bilstm}", "no head is trained"),
        ("labels.zero_shot.template='{text} {text_pair} {label}'", r"has \{text_pair\}, and the task has one text"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(section: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load(_config(tmp_path), Experiment, [section])
