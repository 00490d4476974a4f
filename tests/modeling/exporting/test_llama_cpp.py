"""llama.cpp in the place of transformers' search: the same texts, up to ties, and refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from finished import Build, gpt2_bundle, llama_bundle, separate_bundle
from instruct import INSTRUCT
from published import CHECKPOINTS
from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.models import LlamaSettings
from subgraft.interfaces.api.model import generate, load
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.inference.complete import Completion, Sampling, TorchCompleter
from subgraft.pipeline.compute import continuation
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.llama_cpp import for_llama_cpp
from toys import SHAPE, german, one_stack

pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")

from subgraft.modeling.exporting.gguf import TOLERANCE, export_gguf
from subgraft.modeling.exporting.llama_cpp import LlamaCppCompleter, LlamaCppModel
from subgraft.modeling.gguf_files import FILE

SENTENCES = 60
PROMPTS = [" ".join(line.split()[: 1 + place % 3]) for place, line in enumerate(german(SENTENCES, 5))]


def _continuers(bundle: Bundle, ratio: float = 2.5) -> tuple[Any, Any]:
    limits = {"beam": 1, "max_length_ratio": ratio}
    settings = (MeasurementSettings(engine=engine, **limits) for engine in ("transformers", "llamacpp"))  # type: ignore[arg-type]
    one, other = (continuation.continuer_by_engine(bundle, None, each) for each in settings)
    return one, other


@pytest.mark.parametrize("ratio", [2.5, 0.01])
@pytest.mark.parametrize("build", [gpt2_bundle, llama_bundle])
def test_continuations_are_those_of_transformers(build: Build, ratio: float) -> None:
    expected, result = _continuers(build(), ratio)
    texts = expected(PROMPTS), result(PROMPTS)
    assert sum(a == b for a, b in zip(*texts, strict=True)) >= 0.98 * SENTENCES
    assert len(set(texts[1])) > 3
    assert result.unfinished == pytest.approx(expected.unfinished, abs=1)
    assert result.tokens == pytest.approx(expected.tokens, rel=0.02) and result.seconds > 0


@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "gemma-2b", "gemma-3-1b-pt", "Phi-3-mini-4k-instruct"])
def test_each_token_is_the_most_probable_one(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    bundle = Bundle.load(tmp_path / "model")
    bundle.model.float()
    model = LlamaCppModel.of_bundle(bundle)
    prompts = [[model.start, *ids] for ids in bundle.decoder.encode_batch(PROMPTS[:5])]
    rows: list[list[int]] = [[] for _ in prompts]
    for i, token in model.stream(prompts, 12):
        rows[i].append(token)
    assert all(len(row) == 12 or row[-1] in model.ends for row in rows)
    for prompt, row in zip(prompts, rows, strict=True):
        with torch.inference_mode():
            scores = bundle.model(torch.tensor([[*prompt, *row]])).logits[0].log_softmax(-1)
        for place, token in enumerate(row, len(prompt) - 1):
            assert scores[place, token] > scores[place].max() - TOLERANCE


def test_a_models_own_penalties_are_followed_and_others_refused() -> None:
    bundle = llama_bundle()
    plain = _continuers(bundle)[1](PROMPTS)
    bundle.model.generation_config.repetition_penalty = 1.4
    bundle.model.generation_config.suppress_tokens = [int(bundle.decoder.encode("der")[0])]
    expected, result = (write(PROMPTS) for write in _continuers(bundle))
    assert sum(a == b for a, b in zip(expected, result, strict=True)) >= 0.95 * SENTENCES
    assert result != plain
    bundle.model.generation_config.no_repeat_ngram_size = 2
    with pytest.raises(UserError, match="lacks a generation setting of this model, no_repeat_ngram_size"):
        _continuers(bundle)


def test_vocabularies_that_llama_cpp_lacks_can_be_used() -> None:
    own = learn(german(), kind="unigram", size=400, byte_fallback=True)
    with pytest.raises(UserError, match="in bytes"):
        for_llama_cpp(own, len(own))
    shape = {name: value for name, value in one_stack(SHAPE, "decoder_layers").items() if name != "dropout"}
    model = FAMILIES["llama"].build(LlamaSettings(**shape, tied=True), own, own, 1)
    expected, result = (write(PROMPTS) for write in _continuers(Bundle(model, own, own)))
    assert sum(a == b for a, b in zip(expected, result, strict=True)) >= 0.98 * SENTENCES


@pytest.mark.parametrize("name", ["qwen2.5", "gemma"])
def test_conversations_and_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    INSTRUCT[name](tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_gguf(tmp_path / "model", tmp_path / "out", "f32")
    texts = ["Wie geht es?", "der Garten"]
    exact = load(tmp_path / "model")
    exact.bundle.model.float()
    expected = generate(exact, texts, beam=1, chat=True, max_tokens=8)
    for model, engine in ((tmp_path / "model", "llamacpp"), (tmp_path / "out", None), (tmp_path / "out" / FILE, None)):
        outputs = generate(model, texts, chat=True, max_tokens=8, engine=engine)  # type: ignore[arg-type]
        assert outputs == expected
    (tmp_path / "text").write_text("\n".join(texts), encoding="utf-8")
    command = ["generate", "--model", str(tmp_path / "out"), "--input", str(tmp_path / "text"), "--max-tokens", "8"]
    assert main([*command, "--chat"]) == 0
    assert capsys.readouterr().out.splitlines()[-len(expected) :] == expected
    assert main([*command, "--engine", "transformers"]) == 2
    assert "a GGUF runs in llama.cpp" in capsys.readouterr().err


def test_quantised_files_are_run_as_they_are(tmp_path: Path) -> None:
    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    (tmp_path / "out").mkdir()
    export_gguf(tmp_path / "model", tmp_path / "out", "q8_0")
    assert len(generate(tmp_path / "out", PROMPTS[:3], max_tokens=4)) == 3


def test_samples_repeat_by_their_seed() -> None:
    bundle = llama_bundle()
    completers = (LlamaCppCompleter(LlamaCppModel.of_bundle(bundle)), TorchCompleter(bundle))
    prompt = [completers[0].start, *bundle.decoder.encode("der")]
    for complete in completers:
        seeds = [1, 1, 2, 3, 4, 5]
        drawn = [Completion(prompt, 12, Sampling(1.5, 0.9, seed)) for seed in seeds]
        complete(drawn)
        assert drawn[0].text == drawn[1].text and len({each.text for each in drawn}) > 1
        again = Completion(prompt, 12, Sampling(1.5, 0.9, 1))
        complete([again, Completion(prompt, 12, Sampling(1.5, 0.9))])
        assert again.text == drawn[0].text


def test_samples_have_the_probabilities_of_the_model() -> None:
    """Temperature is applied before top_p, as in transformers."""
    bundle = llama_bundle()
    complete = LlamaCppCompleter(LlamaCppModel.of_bundle(bundle))
    prompt = [complete.start, *bundle.decoder.encode("der")]
    drawn = [Completion(prompt, 1, Sampling(2.0, 0.6)) for _ in range(400)]
    complete(drawn)
    with torch.inference_mode():
        probabilities = (bundle.model(torch.tensor([prompt])).logits[0, -1].double() / 2).softmax(-1)
    order = probabilities.argsort(descending=True)
    nucleus = order[: int((probabilities[order].cumsum(0) < 0.6).sum()) + 1]
    tokens = [each.written[0] for each in drawn if each.written]
    assert {*tokens} <= {*nucleus.tolist()}
    expected = float(probabilities[nucleus[0]] / probabilities[nucleus].sum())
    assert tokens.count(int(nucleus[0])) / 400 == pytest.approx(expected, abs=0.1)


def test_what_llama_cpp_cannot_do_is_refused(tmp_path: Path) -> None:
    separate_bundle().save(tmp_path / "marian")
    llama_bundle().save(tmp_path / "llama")
    CHECKPOINTS["opt-125m"].publish(tmp_path / "opt")
    with pytest.raises(UserError, match="marian models cannot be exported to GGUF"):
        generate(tmp_path / "marian", ["a"], engine="llamacpp")
    with pytest.raises(UserError, match="opt models cannot be exported to GGUF"):
        generate(tmp_path / "opt", ["a"], engine="llamacpp")
    with pytest.raises(ArgumentError, match=r"llama\.cpp has no beam search"):
        generate(tmp_path / "llama", ["a"], engine="llamacpp", beam=2)
    with pytest.raises(ArgumentError, match="engine: expected one of 'transformers', 'ctranslate2', 'llamacpp'"):
        generate(tmp_path / "llama", ["a"], engine="ollama")  # type: ignore[arg-type]


def test_ctranslate2_can_be_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    llama_bundle().save(tmp_path / "llama")
    expected = generate(tmp_path / "llama", PROMPTS[:5])
    assert generate(tmp_path / "llama", PROMPTS[:5], engine="ctranslate2") == expected


def test_neither_package_is_imported_before_it_is_used() -> None:
    modules = ("api.model", "serving.writer", "cli")
    imports = "; ".join(f"import subgraft.interfaces.{module}" for module in modules)
    check = f"import sys; {imports}; assert not {{'xllamacpp', 'gguf'}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", check], check=True)
