"""graft: models and tokenizers of transformers in and out, trained and saved by transformers alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import published
import subgraft
from subgraft.base.errors import LossWarning
from subgraft.data.sources.generated import corpus

TEXTS = [text for pair in corpus.pairs("everyday", "train", 600) for text in pair]
CAUSAL, SEQUENCE, MASKED = "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM"
CHECKPOINTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "gpt2": (published.gpt2, CAUSAL),
    "llama-2": (published.llama_2, CAUSAL),
    "qwen2.5-instruct": (published.qwen_instruct, CAUSAL),
    "mistral": (published.mistral_7b, CAUSAL),
    "gemma-3": (partial(published.gemma, kind="gemma3_text"), CAUSAL),
    "phi-3": (published.phi_3_mini, CAUSAL),
    "opt": (published.opt_125m, CAUSAL),
    "pythia": (published.pythia_70m, CAUSAL),
    "bloom": (published.bloom_560m, CAUSAL),
    "t5": (published.t5, SEQUENCE),
    "bart": (published.bart, SEQUENCE),
    "mbart": (published.mbart_cc25, SEQUENCE),
    "pegasus": (published.pegasus, SEQUENCE),
    "mbert": (published.mbert, MASKED),
    "distilbert": (published.distilbert, MASKED),
    "modernbert": (published.modernbert, MASKED),
    "roberta": (published.roberta, MASKED),
    "xlm-roberta": (published.xlm_roberta, MASKED),
}


def _loaded(name: str, tmp_path: Path) -> tuple[Any, Any]:
    publish, auto = CHECKPOINTS[name]
    directory = tmp_path / name
    directory.mkdir()
    publish(directory)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(directory)
    if name == "mbart":
        tokenizer.src_lang, tokenizer.tgt_lang = "en_XX", "de_DE"
    return getattr(transformers, auto).from_pretrained(directory), tokenizer


def _special_around(tokenizer: Any, special: Any) -> list[str]:
    return [token for token in tokenizer.convert_ids_to_tokens(tokenizer("a b")["input_ids"]) if token in special]


@pytest.mark.parametrize("mode", ["replace", "extend"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_transformers_alone_trains_and_saves_the_result(name: str, mode: Any, tmp_path: Path) -> None:
    model, tokenizer = _loaded(name, tmp_path)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    grafted = subgraft.graft(model, tokenizer, TEXTS, mode=mode, size=900 if mode == "replace" else 50)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in before.items())
    assert type(grafted.model) is type(model) and type(grafted.tokenizer).__module__.startswith("transformers.")
    assert len(grafted.tokenizer) == grafted.model.get_input_embeddings().num_embeddings
    special = tokenizer.all_special_tokens
    assert _special_around(grafted.tokenizer, special) == _special_around(tokenizer, special)
    assert grafted.tokenizer.chat_template == tokenizer.chat_template
    _requires_shared_rows(model, tokenizer, grafted)
    loss = _train(grafted, before_saving=True)
    grafted.model.save_pretrained(tmp_path / "saved")
    grafted.tokenizer.save_pretrained(str(tmp_path / "saved"))
    again: Any = getattr(transformers, CHECKPOINTS[name][1]).from_pretrained(tmp_path / "saved")
    read: Any = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert read(TEXTS[:20])["input_ids"] == grafted.tokenizer(TEXTS[:20])["input_ids"]
    assert _train(type(grafted)(again, read), before_saving=False) == pytest.approx(loss, abs=1e-5)


def _requires_shared_rows(model: Any, tokenizer: Any, grafted: subgraft.Grafted) -> None:
    """Tokens of both vocabularies have the embeddings that they had; the unknown token has that of its role."""
    old, new = tokenizer.get_vocab(), grafted.tokenizer.get_vocab()
    shared = [token for token in old if token in new and token != grafted.tokenizer.unk_token]
    weights = [each.get_input_embeddings().weight.detach() for each in (model, grafted.model)]  # type: ignore[operator]
    assert len(shared) > 50
    assert torch.equal(weights[0][[old[t] for t in shared]], weights[1][[new[t] for t in shared]])


def _train(grafted: subgraft.Grafted, *, before_saving: bool) -> float:
    """The loss of a text; `before_saving` after three updates."""
    ids: Any = grafted.tokenizer(TEXTS[0], return_tensors="pt")
    batch = {"input_ids": ids["input_ids"], "attention_mask": ids["attention_mask"], "labels": ids["input_ids"]}
    grafted.model.eval()
    if before_saving:
        optimiser = torch.optim.SGD(grafted.model.parameters(), lr=1e-3)
        for _ in range(3):
            optimiser.zero_grad()
            grafted.model(**batch).loss.backward()
            optimiser.step()
    with torch.no_grad():
        return float(grafted.model(**batch).loss)


def test_the_size_follows_the_text_where_none_is_set(tmp_path: Path) -> None:
    model, tokenizer = _loaded("llama-2", tmp_path)
    grafted = subgraft.graft(model, tokenizer, TEXTS)
    plain = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    own = [len(grafted.tokenizer(text)["input_ids"]) for text in TEXTS]
    assert sum(own) < sum(plain)
    assert grafted.tokenizer.decode(grafted.tokenizer(TEXTS[0])["input_ids"], skip_special_tokens=True) == TEXTS[0]


def test_mistakes_are_refused(tmp_path: Path) -> None:
    model, tokenizer = _loaded("gpt2", tmp_path)
    (tmp_path / "opus").mkdir()
    published.opus_mt(tmp_path / "opus")
    marian: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "opus")
    cutter: Any = transformers.AutoTokenizer.from_pretrained(tmp_path / "opus")
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("this model has two vocabularies", lambda: subgraft.graft(marian, cutter, TEXTS)),
        ("mode: expected one of", lambda: subgraft.graft(model, tokenizer, TEXTS, mode="add")),  # type: ignore[arg-type]
        ("found one string", lambda: subgraft.graft(model, tokenizer, "one text")),
        ("generator: att, patt, network need", lambda: subgraft.graft(model, tokenizer, TEXTS, method="patt")),
        ("does not support 100000 new", lambda: subgraft.graft(model, tokenizer, TEXTS, mode="extend", size=100_000)),
        ("expected a model and a tokenizer", lambda: subgraft.graft("gpt2", tokenizer, TEXTS)),  # type: ignore[arg-type]
    ]
    for message, call in wrong:
        with pytest.raises(subgraft.UserError) as raised:
            call()
        assert message in str(raised.value)


def test_lost_text_is_refused_and_what_is_allowed_to_be_lost_is_a_warning(tmp_path: Path) -> None:
    """A placeholder of the old tokenizer is found as it stands; a new WordPiece writes spaces around its brackets."""
    model, tokenizer = _loaded("mbert", tmp_path)
    tokenizer.add_tokens(["<unused7>"])
    model.resize_token_embeddings(len(tokenizer))
    texts = [*TEXTS, *["a <unused7>"] * 20]
    before = model.state_dict()
    with pytest.raises(subgraft.UserError, match=rf"max_lost_lines: the new vocabulary changes 20 of {len(texts):,}"):
        subgraft.graft(model, tokenizer, texts)
    assert model.state_dict().keys() == before.keys() and "<unused7>" in tokenizer.get_vocab()
    with pytest.warns(LossWarning, match="changes 20 of"):
        assert "<unused7>" not in subgraft.graft(model, tokenizer, texts, max_lost_lines=0.1).tokenizer.get_vocab()


def test_what_remains_unknown_is_named(tmp_path: Path) -> None:
    model, tokenizer = _loaded("mbert", tmp_path)
    with pytest.warns(LossWarning, match="still unknown, the most frequent first: ☃;"):
        subgraft.graft(model, tokenizer, [*TEXTS, "☃"], mode="extend", size=10)
    with pytest.warns(LossWarning, match="2 words of the text have more than 1,000 characters"):
        subgraft.graft(model, tokenizer, [*TEXTS, "TGAC" * 251, "TGAC" * 251])


def test_a_chat_model_keeps_its_turns_and_every_end(tmp_path: Path) -> None:
    model, tokenizer = _loaded("qwen2.5-instruct", tmp_path)
    grafted = subgraft.graft(model, tokenizer, TEXTS, size=900)
    turns = [{"role": "user", "content": "a b"}]
    special = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    rendered = [
        [token for token in each.convert_ids_to_tokens(_prompt(each, turns)) if token in special]
        for each in (tokenizer, grafted.tokenizer)
    ]
    assert rendered[0] == rendered[1] and rendered[0].count("<|im_start|>") == 3
    ends: Any = [made.generation_config.eos_token_id for made in (model, grafted.model)]
    names = [each.convert_ids_to_tokens(ids) for each, ids in zip((tokenizer, grafted.tokenizer), ends, strict=True)]
    assert names[0] == names[1] == ["<|im_end|>", "<|endoftext|>"]


def _prompt(tokenizer: Any, turns: list[dict[str, str]]) -> list[int]:
    ids: list[int] = tokenizer(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))[
        "input_ids"
    ]
    return ids
