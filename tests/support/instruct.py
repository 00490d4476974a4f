"""Instruct models in miniature, in the layouts of published ones: with a chat template, and the end of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from published import gemma, llama_2, llama_3, qwen_instruct

# Llama's and Gemma's templates strip the contents; Mistral's has no special tokens of roles.
LLAMA_3_CHAT = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
    "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA_CHAT = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MISTRAL_CHAT = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'] + eos_token }}{% else %}{{ raise_exception('Only user and assistant roles') }}"
    "{% endif %}{% endfor %}"
)
MARKED_CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def changed(directory: Path, tokenizer: Mapping[str, Any], generation: Mapping[str, Any]) -> None:
    """The model's files with these entries in its settings, and more positions."""
    settings = {"tokenizer_config": tokenizer, "generation_config": generation}
    for name, entries in {**settings, "config": {"max_position_embeddings": 256}}.items():
        path = directory / f"{name}.json"
        own = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        path.write_text(json.dumps({**own, **entries}), encoding="utf-8")


def _llama_3(directory: Path) -> None:
    """meta-llama/Llama-3.2-1B-Instruct."""
    llama_3(directory, "<|start_header_id|>", "<|end_header_id|>")
    changed(directory, {"chat_template": LLAMA_3_CHAT, "eos_token": "<|eot_id|>"}, {"do_sample": True})


def _gemma(directory: Path) -> None:
    """google/gemma-2b-it: the end of a text and that of a turn."""
    gemma(directory, "gemma")
    pieces = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    changed(directory, {"chat_template": GEMMA_CHAT}, {"eos_token_id": [1, pieces["<end_of_turn>"]]})


def _mistral(directory: Path) -> None:
    """mistralai/Mistral-7B-Instruct-v0.1: turns between words of the text, and the end of a text."""
    llama_2(directory)
    changed(directory, {"chat_template": MISTRAL_CHAT}, {})


def _marked(directory: Path) -> None:
    """Qwen2.5's vocabulary with a template that marks answers, as TRL's templates for training do."""
    qwen_instruct(directory)
    changed(directory, {"chat_template": MARKED_CHAT}, {})


INSTRUCT: Mapping[str, Callable[[Path], None]] = {
    "qwen2.5": qwen_instruct,
    "llama-3": _llama_3,
    "gemma": _gemma,
    "mistral": _mistral,
    "marked": _marked,
}
