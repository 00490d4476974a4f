"""A model whose tokenizer has more tokens than its table has rows: the same message at every door, and nothing written.

Such models are common: a padding token was added to the tokenizer, and the embeddings were never resized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import subgraft
from published import CHECKPOINTS, english, german
from subgraft.base.errors import UserError
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import vocabulary_sizes
from subgraft.modeling.hub import read_config

MESSAGE = re.compile(
    r"the model's (encoder|decoder) has [\d,]+ rows for [\d,]+ tokens, and none for <added>\n"
    r".*resize_token_embeddings\(len\(tokenizer\)\)",
)
COMMANDS: Sequence[str] = (
    "generate --model MODEL --input TEXT",
    "evaluate --model MODEL --sources TEXT --references TEXT",
    "serve MODEL --port 0",
    "export MODEL --to transformers --out OUT",
    "export MODEL --to ctranslate2 --out OUT",
    "vocab learn --like MODEL --text TEXT --size 300 --out OUT",
    "vocab extend MODEL --text TEXT --add 5 --out OUT",
    "vocab trim MODEL --text TEXT --out OUT",
    "vocab compare MODEL SOUND",
    "transfer --model MODEL --vocab SOUND --out OUT",
    "transfer --model SOUND --vocab MODEL --out OUT",
    "transfer --model SOUND --vocab SOUND --method donor --donor MODEL --out OUT",
    "advise MODEL --text TEXT",
    "fit MODEL --pairs TEXT GERMAN --languages en-de --out OUT",
)
CALLS: Sequence[Callable[[Path, Path], object]] = (
    lambda model, _: subgraft.load(model),
    lambda model, text: subgraft.extend(model, text, add=5),
    lambda model, text: subgraft.graft(
        AutoModelForSeq2SeqLM.from_pretrained(model), AutoTokenizer.from_pretrained(model), text
    ),
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sound model, the same with one added token, and text of both languages."""
    folder = tmp_path_factory.mktemp("rows")
    sound, extended = folder / "sound", folder / "model"
    for directory in (sound, extended):
        CHECKPOINTS["bart-base"].publish(directory)
    tokenizer = AutoTokenizer.from_pretrained(extended)
    spare = vocabulary_sizes(read_config(extended))["decoder"] - len(tokenizer)
    tokenizer.add_tokens([f"<spare {number}>" for number in range(spare)])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<added>"]})
    tokenizer.save_pretrained(extended)
    for name, lines in (("english", english(100)), ("german", german(100))):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"SOUND": sound, "MODEL": extended, "TEXT": folder / "english", "GERMAN": folder / "german"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_it_alike(
    command: str, places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    named = {**places, "OUT": out}
    assert main([str(named.get(word, word)) for word in command.split()]) == 2
    message = capsys.readouterr().err
    assert MESSAGE.search(re.sub(r"\s*\n\s+", "\n", message)), message
    assert f"{places['MODEL']}: " in message
    assert not out.exists()


@pytest.mark.parametrize("call", CALLS)
def test_every_function_refuses_it_alike(call: Callable[[Path, Path], object], places: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=MESSAGE.pattern) as raised:
        call(places["MODEL"], places["TEXT"])
    assert raised.value.where in (str(places["MODEL"]), "tokenizer")


def test_a_model_with_resized_embeddings_is_loaded_as_the_hint_says(places: dict[str, Path], tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(places["MODEL"])
    model = AutoModelForSeq2SeqLM.from_pretrained(places["MODEL"])
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert "<added>" in Bundle.load(tmp_path).decoder.pieces
