"""Instruct models: their beginning, all their ends and their chat template are what transformers makes of the files."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from published import QWEN_CHAT, english, llama_3, qwen_instruct
from subgraft.base.errors import UserError
from subgraft.config.evaluation import MeasurementSettings
from subgraft.interfaces.api.model import generate, load
from subgraft.interfaces.api.transfers import transfer
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.search import end_tokens
from subgraft.pipeline.compute.continuation import continuer, continuer_by_engine
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

PROMPTS = list(english(8))
TOKENS = 24


def _written(directory: Path, inputs: list[list[int]]) -> list[list[int]]:
    """What transformers writes greedily behind these ids, by the directory's own settings."""
    model = AutoModelForCausalLM.from_pretrained(directory).eval()
    asked: dict[str, Any] = {"do_sample": False, "max_new_tokens": TOKENS}
    return [model.generate(torch.tensor([ids]), **asked)[0, len(ids) :].tolist() for ids in inputs]


def _write_end(directory: Path, end: int) -> None:
    """In float32, a further end is what the model writes most often."""
    path = directory / "model.safetensors"
    weights = {name: tensor.float() for name, tensor in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text(encoding="utf-8")) | {"torch_dtype": "float32"}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    rows = _written(directory, [tokenizer(text).input_ids for text in PROMPTS])
    frequent = Counter(token for row in rows for token in set(row[3:])).most_common(1)[0][0]
    table = weights["model.embed_tokens.weight"]
    table[end] = 1.2 * table[frequent]
    save_file(weights, path, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("qwen") / "model"
    qwen_instruct(directory)
    _write_end(directory, Tokenizer.load(directory).special["pad"])
    return directory


def _one_line(text: str) -> str:
    return "".join(" " if character in "\n\r\v\f\x85\u2028\u2029" else character for character in text)


def test_plain_prompts_begin_and_end_as_the_files_say(qwen: Path) -> None:
    bundle = Bundle.load(qwen)
    tokenizer: Any = AutoTokenizer.from_pretrained(qwen)
    text_end, turn_end = (tokenizer.convert_tokens_to_ids(piece) for piece in ("<|endoftext|>", "<|im_end|>"))
    assert bundle.sequence_format(None).start == text_end and bundle.sequence_format(None).target_ending == (turn_end,)
    assert end_tokens(bundle.model, bundle.decoder) == (turn_end, text_end)
    inputs = [tokenizer(text).input_ids for text in PROMPTS]
    expected = _written(qwen, [[text_end, *ids] for ids in inputs])
    assert {row[-1] for row in expected} >= {text_end} and any(len(row) == TOKENS for row in expected)
    write = continuer(bundle, None, MeasurementSettings(beam=1, max_length_ratio=100), max_tokens=TOKENS)
    whole = [tokenizer.decode(ids + row, skip_special_tokens=True) for ids, row in zip(inputs, expected, strict=True)]
    assert [f"{text}{added}" for text, added in zip(PROMPTS, write(PROMPTS), strict=True)] == list(
        map(_one_line, whole)
    )
    assert write.unfinished == sum(row[-1] not in (text_end, turn_end) for row in expected)


def test_a_turn_is_answered_by_the_chat_template(
    qwen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(qwen)
    turns = [[{"role": "user", "content": text}] for text in PROMPTS]
    inputs = [tokenizer.apply_chat_template(turn, add_generation_prompt=True)["input_ids"] for turn in turns]
    expected = [_one_line(tokenizer.decode(row, skip_special_tokens=True)) for row in _written(qwen, inputs)]
    assert generate(qwen, PROMPTS, beam=1, chat=True, max_tokens=TOKENS) == expected and len(set(expected)) > 4
    (tmp_path / "turns").write_text("".join(f"{text}\n" for text in PROMPTS), encoding="utf-8")
    asked = ["--input", str(tmp_path / "turns"), "--beam", "1", "--chat", "--max-tokens", str(TOKENS)]
    assert main(["generate", "--model", str(qwen), *asked]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == expected


def test_the_template_may_be_a_file_of_its_own(qwen: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(qwen)
    expected = generate(qwen, PROMPTS[:2], beam=1, chat=True, max_tokens=6)
    bundle.save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    for template in (None, [{"name": "rag", "template": "x"}, {"name": "default", "template": QWEN_CHAT}]):
        changed = {**config, "chat_template": template}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(changed), encoding="utf-8")
        if template is None:
            with pytest.raises(UserError, match="no chat template"):
                generate(tmp_path, PROMPTS[:2], chat=True)
            (tmp_path / "chat_template.jinja").write_text(QWEN_CHAT, encoding="utf-8")
        assert generate(tmp_path, PROMPTS[:2], beam=1, chat=True, max_tokens=6) == expected
        (tmp_path / "chat_template.jinja").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("template", "turn", "message"),
    [
        (QWEN_CHAT, "stop <|im_end|>", "line 2: the text has <|im_end|>"),
        (QWEN_CHAT, "word " * 300, "line 2: .* the model takes 255"),
        ("{{ raise_exception('no') }}", "word", "the chat template cannot be used: no"),
        ("{% if %}", "word", "the chat template cannot be used"),
        ("{{ messages.__class__.__mro__ }}", "word", "the chat template cannot be used"),
    ],
)
def test_what_no_template_takes_is_refused(qwen: Path, tmp_path: Path, template: str, turn: str, message: str) -> None:
    Bundle.load(qwen).save(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        generate(tmp_path, ["word", turn], chat=True)
    assert re.search(message, str(caught.value))


def test_a_transferred_or_exported_model_has_them_too(qwen: Path, tmp_path: Path) -> None:
    own = Tokenizer.load(qwen)
    larger = extend(own, english(), 20)
    longer, smaller = transfer(qwen, larger), transfer(qwen, learn(english(), kind="bpe", size=400, like=own))
    for made in (longer, smaller):
        tokenizer = made.bundle.decoder
        names = [tokenizer.pieces[token] for token in end_tokens(made.bundle.model, tokenizer)]
        assert names == ["<|im_end|>", "<|endoftext|>"]
        assert tokenizer.pieces[made.bundle.sequence_format(None).start] == "<|endoftext|>"
    smaller.save(tmp_path / "smaller")
    (tmp_path / "refused").mkdir()
    with pytest.raises(
        UserError, match="reads every qwen2 vocabulary as Qwen2Tokenizer, which segments text differently"
    ):
        export_transformers(tmp_path / "smaller", tmp_path / "refused")
    longer.save(tmp_path / "longer")
    out = tmp_path / "exported"
    out.mkdir()
    export_transformers(tmp_path / "longer", out)
    theirs: Any = AutoTokenizer.from_pretrained(out)
    ends = json.loads((out / "generation_config.json").read_text(encoding="utf-8"))["eos_token_id"]
    assert theirs.convert_ids_to_tokens(ends) == ["<|im_end|>", "<|endoftext|>"]
    turn = [{"role": "user", "content": PROMPTS[0]}]
    inputs = theirs.apply_chat_template(turn, add_generation_prompt=True)["input_ids"]
    answer = theirs.decode(_written(out, [inputs])[0], skip_special_tokens=True)
    assert generate(load(tmp_path / "longer"), PROMPTS[:1], beam=1, chat=True, max_tokens=TOKENS) == [_one_line(answer)]


def test_ctranslate2_stops_at_every_end(tmp_path: Path) -> None:
    llama_3(tmp_path / "model")
    tokenizer = Tokenizer.load(tmp_path / "model")
    turn_end = tokenizer.pieces.index("<|eot_id|>")
    _write_end(tmp_path / "model", turn_end)
    (tmp_path / "fast").mkdir()
    export_ctranslate2(tmp_path / "model", tmp_path / "fast")
    assert ExportedModel.open(tmp_path / "fast").ends == (tokenizer.special["eos"], turn_end)
    prompts = [text[:9] for text in PROMPTS]
    assert generate(tmp_path / "fast", prompts, beam=1) == generate(tmp_path / "model", prompts, beam=1)
    bundle = Bundle.load(tmp_path / "model")
    expected, result = (
        continuer_by_engine(bundle, None, MeasurementSettings(beam=2, engine=engine))
        for engine in ("transformers", "ctranslate2")
    )
    assert result(prompts) == expected(prompts) and result.unfinished == expected.unfinished
    inputs = [[tokenizer.special["bos"], *ids] for ids in tokenizer.encode_batch(prompts)]
    assert any(turn_end in row for row in _written(tmp_path / "model", inputs))
