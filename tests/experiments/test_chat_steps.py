"""Instruct models all the way: finetuned on conversations with their own vocabulary or another, and asked."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct import INSTRUCT, MARKED_CHAT
from small_experiments import finish, tiny
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.interfaces.api.model import generate
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.prompts import one_line
from subgraft.modeling.inference.search import end_tokens
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from subgraft.training.objectives.compute.conversations import answer_nats
from toys import english

LINES = english(90)
SYSTEMS = """\
- {name: old, vocabulary: upstream}
- {name: own, initialiser: mean}
- {name: extended, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 50}
"""


def chats(place: Path) -> None:
    """Conversations of one question and of two, whose answers repeat a word of the question."""
    (place / "chats").mkdir()
    for split, lines in (("train", LINES[:60]), ("dev", LINES[60:66]), ("test", LINES[66:72])):
        with (place / "chats" / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for number, line in enumerate(lines):
                contents = [line, f"Yes:\n{line.split()[0]}", "And?", "No."][: 2 + 2 * (number % 2)]
                turns = [{"role": ("user", "assistant")[at % 2], "content": c} for at, c in enumerate(contents)]
                file.write(json.dumps({"messages": turns}) + "\n")


def configured(place: Path, **sections: str) -> Path:
    chats(place)
    inputs = {
        "task": "chat",
        "languages": "{source: en, target: en}",
        "corpora": "{own: {conversations: {folder: chats}}}",
        "upstream": "{checkpoint: model, objectives: [{kind: causal}]}",
        "downstream": "{corpus: own, vocabulary: {kind: byte-level-bpe, size: 400}}",
        "finetune": "{epochs: 2, batch_size: 3000, precision: fp32, dev_sentences: 4, max_length: 128}",
        "systems": SYSTEMS,
        "evaluation": "{beam: 1, speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20}",
    }
    (place / "config.yaml").write_text(tiny(**inputs | sections))
    return place / "config.yaml"


def read(store: Store, step: Any, name: str) -> Any:
    return json.loads((store.path(step) / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "kind", ["qwen2.5", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("llama-3", "gemma", "mistral"))]
)
def test_an_instruct_model_is_finetuned_with_every_vocabulary(kind: str, tmp_path: Path) -> None:
    INSTRUCT[kind](tmp_path / "model")
    before = Bundle.load(tmp_path / "model")
    ends = [before.decoder.pieces[end] for end in end_tokens(before.model, before.decoder)]
    special = {before.decoder.pieces[token] for token in {*before.decoder.special_ids, *before.decoder.symbols}}
    sentencepiece = kind in ("gemma", "mistral")
    vocabulary = "{kind: bpe, size: 400, byte_fallback: true}" if sentencepiece else "{kind: byte-level-bpe, size: 400}"
    pipeline, store = finish(configured(tmp_path, downstream=f"{{corpus: own, vocabulary: {vocabulary}}}"))
    assert "before the last answer" in (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8")
    test = [json.loads(line)["messages"] for line in (tmp_path / "chats" / "test.jsonl").open(encoding="utf-8")][:3]
    for steps in pipeline.systems:
        finetuned, evaluated = store.path(steps.finetune), store.path(steps.evaluate)
        bundle, evaluation = Bundle.load(finetuned), read(store, steps.evaluate, "evaluation.json")
        assert [bundle.decoder.pieces[end] for end in end_tokens(bundle.model, bundle.decoder)] == ends
        # Every mark of the template is one token, the same as before.
        theirs: Any = AutoTokenizer.from_pretrained(finetuned)
        old: Any = AutoTokenizer.from_pretrained(tmp_path / "model")
        marks = [
            [
                piece
                for piece in each.convert_ids_to_tokens(each.apply_chat_template(test[1])["input_ids"])
                if piece in special
            ]
            for each in (theirs, old)
        ]
        assert marks[0] == marks[1] and len(marks[0]) >= 3
        nats = dict(answer_nats(bundle, test, "all"))
        characters = [sum(len(turn["content"]) for turn in turns if turn["role"] == "assistant") for turns in test]
        whole = [place for place in range(3) if place in nats]
        expected = sum(nats[place].sum() for place in whole) / log(2) / sum(characters[place] for place in whole)
        assert evaluation["bits_per_character"] == pytest.approx(expected, rel=1e-5)
        statistics = load_file(evaluated / "statistics.safetensors")
        assert statistics["characters"].tolist() == [characters[at] if at in nats else 0 for at in range(3)]
        assert {"exact match", "chrF", "ROUGE-L"} <= evaluation["scores"].keys()
        prompts = [old.apply_chat_template(turns[:-1], add_generation_prompt=True)["input_ids"] for turns in test]
        if steps.finetune.labels["system"] == "old":
            assert evaluation["tokens_per_prompt"] == pytest.approx(np.mean([len(ids) for ids in prompts]))
    report = (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8")
    assert "tokens per prompt" in report and "Scores of outputs" in report and "[user] " in report


def test_transformers_writes_what_generate_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    INSTRUCT["qwen2.5"](tmp_path / "model")
    systems = "[{name: extended, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 50}]"
    pipeline, store = finish(configured(tmp_path, systems=systems))
    finetuned = store.path(pipeline.systems[0].finetune)
    out = tmp_path / "exported"
    asked = ["export", str(finetuned), "--to", "transformers", "--out", str(out)]
    assert main(asked) == 0
    capsys.readouterr()
    theirs: Any = AutoTokenizer.from_pretrained(out)
    model = AutoModelForCausalLM.from_pretrained(out).eval()
    prompts, written = LINES[72:78], list[str]()
    for prompt in prompts:
        turn = [{"role": "user", "content": prompt}]
        ids = theirs.apply_chat_template(turn, add_generation_prompt=True)["input_ids"]
        whole = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12)[0, len(ids) :]
        written.append(one_line(theirs.decode(whole, skip_special_tokens=True)))
    assert generate(finetuned, prompts, beam=1, chat=True, max_tokens=12) == written and len(set(written)) > 1


def test_answers_are_learnt(tmp_path: Path) -> None:
    """A model that answers everything alike says so after some updates, and stops."""
    INSTRUCT["qwen2.5"](tmp_path / "model")
    finetune = (
        "{epochs: null, max_steps: 150, batch_size: 1500, precision: fp32, dev_sentences: 2, max_length: 128, "
        "learning_rate: 0.02, warmup_steps: 10, label_smoothing: 0.0}"
    )
    config = configured(tmp_path, finetune=finetune, systems="[{name: own, initialiser: mean}]")
    for split in ("train", "dev", "test"):
        path = tmp_path / "chats" / f"{split}.jsonl"
        lines = [json.loads(line)["messages"][:2] for line in path.read_text(encoding="utf-8").splitlines()]
        answered = [{"messages": [turns[0], {**turns[1], "content": "No, never."}]} for turns in lines]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in answered), encoding="utf-8")
    pipeline, store = finish(config)
    evaluation = read(store, pipeline.systems[0].evaluate, "evaluation.json")
    assert evaluation["exact_match"] == 1.0 and evaluation["cut_outputs"] == 0
    assert evaluation["bits_per_character"] < 0.2


def test_mistakes_are_refused_before_anything_runs(tmp_path: Path) -> None:
    INSTRUCT["qwen2.5"](tmp_path / "model")
    (tmp_path / "plain").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "plain" / f"{split}.en").write_text("a line\n")
    config = configured(tmp_path)
    wrong: list[tuple[list[str], str]] = [
        (["corpora.own={folder: plain}"], "conversations are needed, and this corpus has none"),
        (["task=continuation", "chat.turns=last"], "these settings only apply to `task: chat`"),
        (["systems.0.text=lines"], "conversations, not of mere lines"),
        (["evaluation.calibration=true"], "calibration applies to outputs for a source"),
    ]
    for changes, message in wrong:
        with pytest.raises(UserError, match=message):
            Pipeline(load(config, Experiment, changes), tmp_path).report  # noqa: B018


def test_a_base_model_takes_a_configured_template_and_a_plan_counts_its_updates(tmp_path: Path) -> None:
    INSTRUCT["marked"](tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["chat_template"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    chat = json.dumps({"template": MARKED_CHAT, "turns": "last"})
    config = configured(tmp_path, chat=chat, systems="[{name: own, initialiser: mean}]")
    pipeline, store = finish(config)
    finetune = pipeline.systems[0].finetune
    assert Bundle.load(store.path(finetune)).decoder.config["chat_template"] == MARKED_CHAT
    summary = read(store, finetune, "record.json")["summary"]
    assert summary["left_out"] == {} and summary["cut_pairs"] == 0
    assert make_plan(store, [pipeline.report])
