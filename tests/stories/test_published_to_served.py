"""From a model as it is published to one that is served, by the commands that a user types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from published import CHECKPOINTS, english
from served_models import served
from small_experiments import tiny, written
from toys import german
from whole_runs import run_config

SYSTEMS = """
- {name: old, vocabulary: upstream}
- {name: own, initialiser: mean, learning_rate: 0.01}
"""


def subgraft(home: Path, *arguments: object, text: str = "") -> str:
    command = [sys.executable, "-m", "subgraft", *map(str, arguments)]
    environment = {**os.environ, "SUBGRAFT_HOME": str(home)}
    ended = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize(("name", "size"), [("opus-mt-en-de", 110), ("mbart-large-50-many-to-many-mmt", 140)])
def test_a_published_model_is_fitted_exported_and_served(name: str, size: int, tmp_path: Path) -> None:
    home, published = tmp_path / "home", tmp_path / "published"
    CHECKPOINTS[name].publish(published)
    torch.save(load_file(published / "model.safetensors"), published / "pytorch_model.bin")
    (published / "model.safetensors").unlink()
    subgraft(home, "convert", published, "--out", tmp_path / "converted")
    config = written(
        tmp_path,
        tiny(
            upstream="{checkpoint: converted}",
            downstream=f"{{corpus: downstream, vocabulary: {{size: {size}, byte_fallback: false}}}}",
            systems=SYSTEMS,
            finetune="{max_steps: 30, batch_size: 500, precision: fp32, dev_sentences: 2, max_length: 60}",
        ),
    )
    assert "own" in run_config(config, home)

    model = "models:/tiny-en-de@champion"
    (tmp_path / "text.de").write_text("".join(f"{line}\n" for line in german(600)), encoding="utf-8")
    like = ("--like", model, "--text", tmp_path / "text.de", "--size", 400, "--out", tmp_path / "vocabulary")
    assert "400 pieces" in subgraft(home, "vocab", "learn", *like)
    assert "subwords" in subgraft(home, "vocab", "compare", model, tmp_path / "vocabulary")
    subgraft(home, "export", model, "--to", "ctranslate2", "--out", tmp_path / "exported")
    texts = list(english(1200)[:20])
    typed = "".join(f"{text}\n" for text in texts)
    expected = subgraft(home, "generate", "--model", model, "--beam", 1, text=typed).splitlines()
    exported = subgraft(home, "generate", "--model", tmp_path / "exported", "--beam", 1, text=typed).splitlines()
    assert exported == expected and len(set(expected)) > 1
    with served(tmp_path / "exported", tmp_path, "--beam", "1") as serving:
        status, answer = serving.ask(*texts)
    assert (status, answer["models"][0]["outputs"]) == (200, expected)
