"""Models exported to GGUF are read and computed by llama.cpp as by transformers, and come back from it unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import normalizers, pre_tokenizers

from finished import bart_bundle
from instruct import INSTRUCT
from published import CHECKPOINTS
from subgraft.base.errors import UserError
from subgraft.base.security.gguf_header import GgufFile, read_gguf
from subgraft.config.models import LlamaSettings
from subgraft.interfaces.api.exports import WEIGHT_TYPES as OFFERED
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, family_of
from subgraft.modeling.families.gguf_layout import LlamaLayout
from subgraft.modeling.gguf_files import FILE, convert_gguf, require_layout
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.llama_cpp import SPLITTINGS, for_llama_cpp
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import SHAPE, german, german_tokenizer, one_stack

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")

from subgraft.modeling.exporting.gguf import (
    MEAN_TOLERANCES,
    MODELFILE,
    RECORD,
    TOLERANCE,
    WEIGHT_TYPES,
    GgufExport,
    export_gguf,
)
from subgraft.modeling.inference.llama_cpp import LlamaCpp

PUBLISHED = (
    "gpt2",
    "Llama-2-7b",
    "Llama-3.2-1B",
    "Mistral-7B-v0.1",
    "Qwen2.5-0.5B",
    "Qwen3-0.6B",
    "gemma-2b",
    "gemma-2-2b",
    "gemma-3-1b-pt",
    "Phi-3-mini-4k-instruct",
)
TEXTS = [
    "in 2024, 1,234.5 % don't I'LL",
    "naïve Straße «été»\t\tx\n\n y",
    "日本語 ☃😀👩‍👩‍👧 العربية हिन्दी",
    "x[i] += 1;\r\n}",
]
TOKENS = 12


def _export(model: Path, out: Path, weights: str = "f32", template: Path | None = None) -> GgufExport:
    out.mkdir()
    return export_gguf(model, out, weights, template)


def _llama(vocabulary: Tokenizer, **sizes: Any) -> Bundle:
    shape = {name: value for name, value in one_stack(SHAPE, "decoder_layers").items() if name != "dropout"}
    settings = LlamaSettings(**{**shape, "key_value_heads": 1, "tied": True, **sizes})
    return Bundle(FAMILIES["llama"].build(settings, vocabulary, vocabulary, 1), vocabulary, vocabulary)


def _assert_most_probable(bundle: Bundle, ids: list[int], continuation: list[int]) -> None:
    """Each token is transformers' most probable one, or as probable up to the engines' rounding."""
    with torch.inference_mode():
        scores = bundle.model(torch.tensor([[*ids, *continuation]])).logits[0].log_softmax(-1)
    for i, token in enumerate(continuation, len(ids) - 1):
        assert scores[i, token] > scores[i].max() - TOLERANCE


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_the_same_in_llama_cpp_and_back(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    comparison = _export(tmp_path / "model", tmp_path / "out").comparison
    assert comparison is not None
    assert comparison.same == comparison.texts
    assert comparison.largest < TOLERANCE
    (tmp_path / "back").mkdir()
    convert_gguf(tmp_path / "out" / FILE, tmp_path / "back")
    first, again = Bundle.load(tmp_path / "model"), Bundle.load(tmp_path / "back")
    assert again.decoder.encode_batch(TEXTS) == first.decoder.encode_batch(TEXTS)
    assert again.decoder.special.items() <= first.decoder.special.items() | {("bos", _start(first))}
    weights = dict(again.model.named_parameters())
    for own, tensor in first.model.named_parameters():
        torch.testing.assert_close(weights[own], tensor.float(), atol=1e-6, rtol=1e-6)
    _export(tmp_path / "back", tmp_path / "again")
    before, after = (read_gguf(tmp_path / folder / FILE) for folder in ("out", "again"))
    assert after.tensors == before.tensors or {n: t.shape for n, t in after.tensors.items()} == {
        n: t.shape for n, t in before.tensors.items()
    }
    assert after.entries["tokenizer.ggml.tokens"] == before.entries["tokenizer.ggml.tokens"]
    for tensor_name in before.tensors:
        np.testing.assert_allclose(after.numbers(tensor_name), before.numbers(tensor_name), atol=1e-6)


def _start(bundle: Bundle) -> int:
    return bundle.sequence_format(None).start


@pytest.mark.parametrize("name", ["gpt2", "Llama-3.2-1B", "gemma-2-2b"])
def test_greedy_continuations_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    _export(tmp_path / "model", tmp_path / "out")
    bundle = Bundle.load(tmp_path / "model")
    bundle.model.float()
    running = LlamaCpp(tmp_path / "out" / FILE, positions=64, threads=1)
    continued = 0
    for text in TEXTS:
        prompt = [_start(bundle), *bundle.decoder.encode(text)][:40]
        theirs = running.continued(prompt, TOKENS)
        _assert_most_probable(bundle, prompt, theirs)
        continued += len(theirs)
    assert continued > TOKENS


@pytest.mark.parametrize("kind", ["byte-level-bpe", "unigram", "bpe"])
def test_own_vocabularies_come_along(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"byte_fallback": True, "keep_whitespace": True} if kind == "bpe" else {}
    options |= {"normalization": "identity"} if kind == "bpe" else {}
    own = learn(german(), kind=kind, size=400 if kind != "unigram" else 90, **options)  # type: ignore[arg-type]
    _llama(own).save(tmp_path / "model")
    exported = _export(tmp_path / "model", tmp_path / "out")
    assert exported.comparison is not None
    assert exported.comparison.same >= 0.99 * exported.comparison.texts
    (tmp_path / "back").mkdir()
    convert_gguf(tmp_path / "out" / FILE, tmp_path / "back")
    assert Tokenizer.load(tmp_path / "back").encode_batch(german(100, 9)) == own.encode_batch(german(100, 9))


@pytest.mark.parametrize("splitting", SPLITTINGS, ids=lambda each: str(each.name))
def test_each_rule_of_splitting_has_its_name(splitting: Any) -> None:
    steps = {"type": "Sequence", "pretokenizers": [{"trim_offsets": True, **step} for step in splitting.steps]}
    tokenizer = _changed(german_tokenizer(400, "byte-level-bpe"), pre_tokenizer=steps)
    if splitting.whole_words:  # by its merges the vocabulary has no use for this
        specification = tokenizer.specification
        specification["model"]["ignore_merges"] = True
        tokenizer = tokenizer.with_specification(specification)
    assert for_llama_cpp(tokenizer, len(tokenizer)).splitting == splitting.name


def _changed(tokenizer: Tokenizer, **parts: Any) -> Tokenizer:
    return tokenizer.with_specification({**tokenizer.specification, **parts})


def _as_json(part: Any) -> Any:
    built = tokenizers.Tokenizer(tokenizers.models.BPE())
    name = "normalizer" if isinstance(part, normalizers.Normalizer) else "pre_tokenizer"
    setattr(built, name, part)
    return json.loads(built.to_str())[name]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"normalizer": normalizers.Lowercase()}, "does not normalise text .Lowercase"),
        (
            {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
            "no rule that splits text.*add_prefix_space",
        ),
        (
            {
                "pre_tokenizer": pre_tokenizers.Sequence(
                    [pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
                )
            },
            "no rule that splits text.*Punctuation",
        ),
    ],
)
def test_rules_that_llama_cpp_lacks_are_named(parts: dict[str, Any], message: str) -> None:
    changed = {name: _as_json(part) for name, part in parts.items()}
    tokenizer = _changed(german_tokenizer(400, "byte-level-bpe"), **changed)
    with pytest.raises(UserError, match=message):
        for_llama_cpp(tokenizer, len(tokenizer))


def test_vocabularies_that_llama_cpp_lacks_are_refused() -> None:
    with pytest.raises(UserError, match="must have the 256 bytes"):
        for_llama_cpp(german_tokenizer(90, "bpe"), 90)
    with pytest.raises(UserError, match="no WordPiece"):
        words = learn(german(), kind="wordpiece", size=150)
        for_llama_cpp(words, len(words))
    with_bytes = learn(german(), kind="unigram", size=400, byte_fallback=True)
    with pytest.raises(UserError, match="in bytes"):
        for_llama_cpp(with_bytes, len(with_bytes))


def test_tokens_that_no_merge_forms_need_a_rule_that_finds_them() -> None:
    tokenizer = german_tokenizer(400, "byte-level-bpe")
    specification = tokenizer.specification
    specification["model"]["vocab"]["qzqz"] = len(tokenizer)
    specification["model"]["ignore_merges"] = True
    tokenizer = tokenizer.with_specification(specification)
    with pytest.raises(UserError, match="gpt-2 segments words that are tokens"):
        for_llama_cpp(tokenizer, len(tokenizer))


@pytest.mark.parametrize("name", ["opt-125m", "t5-small", "bert-base-multilingual-cased"])
def test_other_families_are_refused(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    with pytest.raises(UserError, match="cannot be exported to GGUF"):
        _export(tmp_path / "model", tmp_path / "out")


def test_what_llama_cpp_computes_differently_is_refused(tmp_path: Path) -> None:
    CHECKPOINTS["Llama-2-7b"].publish(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    scaling = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    path.write_text(json.dumps({**config, "rope_parameters": scaling}), encoding="utf-8")
    with pytest.raises(UserError, match="rotary positions that are scaled"):
        _export(tmp_path / "model", tmp_path / "out")
    path.write_text(json.dumps({**config, "hidden_act": "relu"}), encoding="utf-8")
    with pytest.raises(UserError, match="activation function 'relu'"):
        _export(tmp_path / "model", tmp_path / "other")


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
BOUNDED = {**YARN, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.5}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 256}


def _scaled(folder: Path, name: str, scaling: Mapping[str, Any]) -> dict[str, Any]:
    """A published model whose positions are scaled, and its configuration."""
    CHECKPOINTS[name].publish(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    rotary = {**scaling, "rope_theta": 10000.0}
    if name.startswith("gemma-3"):
        rotary = {**config["rope_parameters"], "full_attention": rotary}
    if scaling["rope_type"] == "longrope":
        size = config["hidden_size"] // config["num_attention_heads"] // 2
        rotary |= {"short_factor": [1.1] * size, "long_factor": [2.0 + i for i in range(size)]}
        config |= {"original_max_position_embeddings": 256, "max_position_embeddings": 512}
    config = {name: value for name, value in config.items() if name != "rope_scaling"} | {"rope_parameters": rotary}
    path.write_text(json.dumps(config), encoding="utf-8")
    return config


@pytest.mark.parametrize(
    ("name", "scaling"),
    [
        ("Llama-2-7b", BOUNDED),
        ("Qwen2.5-0.5B", {"rope_type": "linear", "factor": 4.0}),
        ("Qwen2.5-0.5B", YARN),
        ("Qwen3-0.6B", {**YARN, "mscale": 0.7, "mscale_all_dim": 1.4}),
        ("gemma-3-1b-pt", {"rope_type": "linear", "factor": 8.0}),
        ("Phi-3-mini-4k-instruct", LONG),
    ],
)
def test_scaled_positions_are_computed_by_llama_cpp_and_come_back(
    name: str, scaling: dict[str, Any], tmp_path: Path
) -> None:
    _scaled(tmp_path / "model", name, scaling)
    comparison = _export(tmp_path / "model", tmp_path / "out").comparison
    assert comparison is not None
    assert comparison.largest < TOLERANCE
    (tmp_path / "back").mkdir()
    convert_gguf(tmp_path / "out" / FILE, tmp_path / "back")
    first, again = Bundle.load(tmp_path / "model").model.float(), Bundle.load(tmp_path / "back").model
    ids = torch.arange(3, 51)[None]
    with torch.inference_mode():
        torch.testing.assert_close(again(ids).logits, first(ids).logits, atol=1e-3, rtol=1e-3)


def test_factors_of_long_texts_are_those_of_transformers(tmp_path: Path) -> None:
    _scaled(tmp_path / "model", "Phi-3-mini-4k-instruct", LONG)
    exported = _export(tmp_path / "model", tmp_path / "out")
    assert any("for long texts" in limit for limit in exported.limits)
    bundle = Bundle.load(tmp_path / "model")
    bundle.model.float()
    running, ids = LlamaCpp(tmp_path / "out" / FILE, positions=512, threads=1), [3 + i % 400 for i in range(300)]
    theirs = running.log_probabilities(ids, 5, written=50)
    with torch.inference_mode():
        ours = bundle.model(torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
    assert ours[[*theirs]].tolist() == pytest.approx([*theirs.values()], abs=TOLERANCE)


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "proportional"])
@pytest.mark.parametrize("name", ["Llama-2-7b", "Qwen2.5-0.5B", "Qwen3-0.6B", "gemma-2b", "gemma-2-2b"])
def test_other_scalings_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    config = _scaled(tmp_path / "model", name, {"rope_type": kind, "factor": 2.0})
    with pytest.raises(UserError, match=f"scaled as in this model .'{kind}'"):
        require_layout(family_of(config), config, "")


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"rope.scaling.type": "longrope"}, "scaled by 'longrope'"),
        ({"rope.scaling.attn_factor": 1.2}, "attn_factor without yarn"),
        ({"rope.scaling.yarn_log_multiplier": 0.1}, r"the entry llama\.rope\.scaling\.yarn_log_multiplier"),
        ({"rope.dimension_count": 4}, "positions of a part of each head"),
        ({"attention.scale": 0.1}, r"the entry llama\.attention\.scale"),
        ({"expert_count": 8}, r"the entry llama\.expert_count"),
    ],
)
def test_entries_of_other_files_are_read_or_refused(
    further: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _foreign(tmp_path, monkeypatch, **further)
    with pytest.raises(UserError, match=message):
        convert_gguf(file.path, tmp_path / "back")


def test_tensors_that_are_not_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _foreign(tmp_path, monkeypatch)
    extra = {**file.tensors, "rope_factors_long.weight": file.tensors["output_norm.weight"]}
    monkeypatch.setattr("subgraft.modeling.gguf_files.read_gguf", lambda path: replace(file, tensors=extra))
    with pytest.raises(UserError, match=r"the tensor rope_factors_long\.weight"):
        convert_gguf(file.path, tmp_path / "back")


def test_older_and_neutral_entries_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    further = {"rope.scale_linear": 4.0, "expert_count": 0, "rope.scaling.finetuned": True}
    convert_gguf(_foreign(tmp_path, monkeypatch, **further).path, tmp_path / "back")
    config = json.loads((tmp_path / "back" / "config.json").read_text(encoding="utf-8"))
    assert config["rope_parameters"] == {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}


def _foreign(folder: Path, monkeypatch: pytest.MonkeyPatch, **further: Any) -> GgufFile:
    """A Llama's file that has these entries too."""
    CHECKPOINTS["Llama-2-7b"].publish(folder / "model")
    _export(folder / "model", folder / "out")
    (folder / "back").mkdir()
    file = read_gguf(folder / "out" / FILE)
    file = replace(file, entries={**file.entries, **{f"llama.{key}": value for key, value in further.items()}})
    monkeypatch.setattr("subgraft.modeling.gguf_files.read_gguf", lambda path: file)
    return file


def test_flags_of_added_tokens_that_are_lost_are_named() -> None:
    specification = german_tokenizer(400, "byte-level-bpe").specification
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    own = [("<mask>", {"lstrip": True}), ("<a>", {"single_word": True, "rstrip": True}), ("<b>", {"normalized": True})]
    for number, (content, changed) in enumerate(own, len(specification["model"]["vocab"])):
        specification["model"]["vocab"][content] = number
        token = {"id": number, "content": content, "special": False, **flags, **changed}
        specification["added_tokens"].append(token)
    tokenizer = german_tokenizer(400, "byte-level-bpe").with_specification(specification)
    lost = for_llama_cpp(tokenizer, len(tokenizer)).lost_flags
    assert lost == {"lstrip": ["<mask>"], "rstrip": ["<a>"], "single_word": ["<a>"]}
    composed = _changed(tokenizer, normalizer=_as_json(normalizers.NFC()))
    assert for_llama_cpp(composed, len(composed)).lost_flags == {**lost, "normalized": ["<b>"]}
    limits = for_llama_cpp(composed, len(composed)).all_limits
    assert "white space before a token is not removed (the flag lstrip of <mask>)" in limits


def test_the_comparison_finds_weights_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CHECKPOINTS["Llama-2-7b"].publish(tmp_path / "model")
    monkeypatch.setattr(LlamaLayout, "arranged", lambda self, name, tensor, config: tensor)
    with pytest.raises(UserError, match="computes something else"):
        _export(tmp_path / "model", tmp_path / "out")


def test_the_comparison_finds_another_segmentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CHECKPOINTS["Llama-2-7b"].publish(tmp_path / "model")
    place = "subgraft.subwords.vocabulary.llama_cpp.normaliser_settings"
    monkeypatch.setattr(place, lambda _: {"add_dummy_prefix": False, "remove_extra_whitespaces": False})
    with pytest.raises(UserError, match=r"segments .* of 1,000 texts differently, such as"):
        _export(tmp_path / "model", tmp_path / "out")


def test_coarser_types_are_smaller_and_close(tmp_path: Path) -> None:
    assert OFFERED == WEIGHT_TYPES
    _llama(german_tokenizer(), d_model=64, ffn_dim=96).save(tmp_path / "model")
    sizes = {}
    for weights in WEIGHT_TYPES:
        comparison = _export(tmp_path / "model", tmp_path / weights, weights).comparison
        assert comparison is not None
        assert comparison.mean < MEAN_TOLERANCES[weights] / 2
        sizes[weights] = sum(tensor.size for tensor in read_gguf(tmp_path / weights / FILE).tensors.values())
    assert sizes["q8_0"] < sizes["f16"] == sizes["bf16"] < 0.6 * sizes["f32"]


def test_numbers_that_half_precision_cannot_hold_are_refused(tmp_path: Path) -> None:
    bundle = _llama(german_tokenizer())
    with torch.no_grad():
        side(bundle.model, "decoder").input.weight[5, 5] = 1e5
    bundle.save(tmp_path / "model")
    with pytest.raises(UserError, match="f16 cannot hold"):
        _export(tmp_path / "model", tmp_path / "out", "f16")


@pytest.mark.parametrize(("name", "begins"), [("qwen2.5", False), ("gemma", True)])
def test_conversations(name: str, begins: bool, tmp_path: Path) -> None:
    INSTRUCT[name](tmp_path / "model")
    _export(tmp_path / "model", tmp_path / "out")
    entries, bundle = read_gguf(tmp_path / "out" / FILE).entries, Bundle.load(tmp_path / "model")
    assert entries["tokenizer.chat_template"] == bundle.decoder.config["chat_template"]
    assert entries["tokenizer.ggml.add_bos_token"] is begins
    ends = {entries[key] for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id") if key in entries}
    stops = (tmp_path / "out" / MODELFILE).read_text(encoding="utf-8")
    assert all(f'PARAMETER stop "{bundle.decoder.pieces[end]}"' in stops for end in ends)
    running = LlamaCpp(tmp_path / "out" / FILE, positions=64, threads=1)
    assert running.encode("a", special=True)[0] == _start(bundle) or not begins
    assert len(running.encode("a", special=True)) == len(running.encode("a")) + begins


def test_entries_of_the_original_are_copied(tmp_path: Path) -> None:
    import gguf

    CHECKPOINTS["Llama-2-7b"].publish(tmp_path / "model")
    for architecture in ("llama", "qwen2"):
        writer = gguf.GGUFWriter(tmp_path / f"{architecture}.gguf", architecture)
        writer.add_license("apache-2.0")
        writer.add_token_list(["another", "vocabulary"])
        writer.add_rope_freq_base(77.0)
        writer.add_tensor("token_embd.weight", np.zeros((2, 2), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    _export(tmp_path / "model", tmp_path / "out", template=tmp_path / "llama.gguf")
    entries = read_gguf(tmp_path / "out" / FILE).entries
    assert entries["general.license"] == "apache-2.0"
    assert entries["llama.rope.freq_base"] == 10000.0
    assert len(entries["tokenizer.ggml.tokens"]) == 800
    with pytest.raises(UserError, match="a GGUF of 'qwen2', and this model is of 'llama'"):
        _export(tmp_path / "model", tmp_path / "other", template=tmp_path / "qwen2.gguf")


def test_commands_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS["Mistral-7B-v0.1"].publish(tmp_path / "model")
    model, out = str(tmp_path / "model"), str(tmp_path / "out")
    assert main(["export", model, "--to", "gguf", "--type", "q8_0", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert "1,000 of 1,000 texts" in shown
    assert "attention is not limited to 16 tokens" in shown
    record = json.loads((tmp_path / "out" / RECORD).read_text(encoding="utf-8"))
    assert record["weights"] == "q8_0"
    assert record["comparison"]["same"] == 1000
    assert "lost_flags" in record
    assert main(["convert", f"{out}/{FILE}", "--out", str(tmp_path / "back")]) == 0
    assert main(["export", f"{out}/{FILE}", "--to", "transformers", "--out", str(tmp_path / "another")]) == 2
    assert "subgraft convert" in capsys.readouterr().err
    assert main(["export", model, "--to", "transformers", "--type", "f16", "--out", str(tmp_path / "other")]) == 2
    assert "only gguf has it" in capsys.readouterr().err


def test_every_layout_is_of_a_family_that_says_so() -> None:
    layouts = [family.gguf for family in FAMILIES.values() if family.gguf]
    assert {layout.architecture for layout in layouts} == {
        *("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "gpt2")
    }


def test_translators_are_refused_by_name(tmp_path: Path) -> None:
    bart_bundle().save(tmp_path / "model")
    with pytest.raises(UserError, match="bart models cannot be exported to GGUF"):
        _export(tmp_path / "model", tmp_path / "out")
