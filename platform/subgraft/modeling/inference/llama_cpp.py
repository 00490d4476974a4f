"""llama.cpp in this process (the package xllamacpp): token ids of texts, log-probabilities, and continuations."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgraft.base.errors import OperationalError, UserError

# No proxy: the server answers on this machine only.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SECONDS = 600


def is_installed() -> bool:
    """Whether llama.cpp can run here."""
    try:
        import xllamacpp  # noqa: F401
    except ImportError:
        return False
    return True


def require_llama_cpp() -> None:
    """Raises UserError if llama.cpp is not installed."""
    if not is_installed():
        raise UserError("llama.cpp is not installed", hint="pip install 'subgraft[llamacpp]'")


class LlamaCpp:
    """A GGUF in llama.cpp, on CPUs, with an exact cache of keys and values.

    It also listens at an address of this machine, behind a random key, because only its server has all of this.
    """

    def __init__(self, file: Path, *, positions: int, threads: int, sequences: int = 1) -> None:
        """Raises UserError if llama.cpp is not installed or cannot load the file.

        positions: the longest text with its continuation, in tokens. sequences: how many are continued at a time.
        """
        require_llama_cpp()
        import xllamacpp

        self._key = secrets.token_hex(16)
        settings = xllamacpp.CommonParams()
        settings.model.path, settings.api_keys = str(file), [self._key]
        settings.n_ctx, settings.n_gpu_layers, settings.fit_params = positions * sequences, 0, False
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.n_parallel, settings.kv_unified, settings.warmup, settings.verbosity = sequences, False, False, -1
        settings.ui = settings.endpoint_slots = settings.cache_prompt = False
        settings.cache_ram_mib = 0
        settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        try:
            self._server = xllamacpp.Server(settings)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"llama.cpp cannot load it: {error}", where=str(file)) from error
        # A server that is dropped before its loop has begun never ends, and the process waits for it: its constructor
        # does not wait for the loop, which ids of texts do not need (server.cpp of xllamacpp 2026.10).
        self._complete([0], 1)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of a text, in which special tokens may be spelled out.

        special: whether the tokens that llama.cpp puts around a text are added.
        """
        ids: list[int] = self._ask("tokenize", content=text, add_special=special, parse_special=True)["tokens"]
        return ids

    def log_probabilities(self, ids: Sequence[int], count: int, written: int) -> dict[int, float]:
        """The `count` most probable next tokens, with the logarithms of their probabilities.

        written: The token that llama.cpp chooses, which must be text: it answers nothing for ends and parts of
        characters. The choice does not change the probabilities.
        """
        answer = self._complete(ids, 1, n_probs=count, logit_bias=[[written, 1e6]], ignore_eos=True)
        return {each["id"]: each["logprob"] for each in answer["completion_probabilities"][0]["top_logprobs"]}

    def continued(self, ids: Sequence[int], tokens: int, *, past_ends: bool = False) -> list[int]:
        """The most probable next tokens, one after another, up to an end token.

        past_ends: whether end tokens are never chosen.
        """
        continuation: list[int] = self._complete(ids, tokens, return_tokens=True, ignore_eos=past_ends)["tokens"]
        return continuation

    def stream(self, prompts: Sequence[Sequence[int]], tokens: int, **settings: Any) -> Generator[tuple[int, int]]:
        """The index of a prompt and its next token, as they are written; to close the iterator ends the search.

        The prompts are one request, so which of them are computed together does not depend on time.

        Args:
            prompts: The ids of each.
            tokens: The limit of each continuation.
            settings: The server's names of further settings.
        """
        asked = {"prompt": [list(ids) for ids in prompts], "n_predict": tokens, "return_tokens": True, "stream": True}
        with self._open("completion", {**asked, "cache_prompt": False, **settings}) as answer:
            for line in answer:
                if line.startswith(b"error:"):
                    raise OperationalError(f"llama.cpp: {line[:300].decode(errors='replace')}")
                event = (json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else None) or {}
                if "error" in event:
                    raise OperationalError(f"llama.cpp: {event['error']!s:.300}")
                for token in event.get("tokens", ()):
                    yield event["index"], token

    def _complete(self, ids: Sequence[int], tokens: int, **settings: Any) -> Any:
        greedy = {"temperature": 0.0, "samplers": ["temperature"], "repeat_penalty": 1.0, "cache_prompt": False}
        return self._ask("completion", prompt=list(ids), n_predict=tokens, **greedy, **settings)

    def _ask(self, path: str, **asked: Any) -> Any:
        with self._open(path, asked) as answer:
            return json.loads(answer.read())

    def _open(self, path: str, asked: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        body, address = json.dumps(asked).encode(), f"{self._server.listening_address}/{path}"
        try:
            return _OPENER.open(urllib.request.Request(address, body, headers), timeout=_SECONDS)
        except urllib.error.HTTPError as error:
            raise OperationalError(f"llama.cpp: {error.read()[:300].decode(errors='replace')}") from error
