"""A model adopts another one's tokenizer: by `subgraft transfer --method donor`, and by mergekit's tokensurgeon.

    make peers                           puts mergekit into .peers, apart from this project's environment
    python benchmarks/donors.py [--quick]

Both get the same two directories, a model and a donor of random weights, and as many atoms for a combination. Each is a
process of its own on one thread; CPU seconds include its start, reading and writing. `rows that differ` counts
new tokens' rows, in all tables, that differ by more than 1e-5 of the largest number: in single precision two shared
tokens may align equally well, and each package may choose another one. The special token's rows are zeros: tokensurgeon
may combine tokens from it, Subgraft does not.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors import safe_open
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from measurements import cannot, measurements, options
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.alignment import align

ATOMS = 64
END = "<|endoftext|>"


def words(seed: int, count: int) -> list[str]:
    """Invented text, in which some syllables are more frequent than others."""
    torch.manual_seed(seed)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    weights = 1 / torch.arange(1, len(syllables) + 1)
    drawn = torch.multinomial(weights, count * 12, replacement=True).tolist()
    cut = iter(torch.randint(1, 5, (count * 12,)).tolist())
    text, place = [], 0
    while place < len(drawn):
        size = next(cut)
        text.append("".join(syllables[i] for i in drawn[place : place + size]))
        place += size
    return [" ".join(text[i : i + 10]) for i in range(0, len(text), 10)]


def write_tokenizer(directory: Path, seed: int, size: int) -> int:
    """A byte-level one as GPT-2's; returns its number of tokens."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(words(seed, 20_000), vocab_size=size, special_tokens=[END])
    written: Any = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made._tokenizer, eos_token=END, bos_token=END
    )
    written.save_pretrained(directory)
    vocabulary = made.get_vocab()
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    return len(vocabulary)


def write_model(directory: Path, shape: str, width: int, seed: int, size: int) -> None:
    directory.mkdir()
    count = write_tokenizer(directory, seed, size)
    torch.manual_seed(seed)
    ends: dict[str, Any] = {"vocab_size": count, "bos_token_id": 0, "eos_token_id": 0}
    model: Any
    if shape == "GPT-2":
        model = GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=1, n_head=4, n_positions=64, **ends))
    else:
        sizes: dict[str, Any] = {"hidden_size": width, "intermediate_size": width, "num_hidden_layers": 1}
        sizes |= {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64}
        model = LlamaForCausalLM(LlamaConfig(**sizes, **ends, tie_word_embeddings=False))
    with torch.no_grad():
        for table in (model.get_input_embeddings(), model.get_output_embeddings()):
            table.weight[0] = 0.0
    model.save_pretrained(directory)


def seconds_of(command: Sequence[str], path: str = "") -> float:
    """CPU seconds of a process on one thread. Ends the benchmark if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        cannot(f"{command[0]} failed: {ended.stderr.strip()[-1500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tables(directory: Path) -> list[Tensor]:
    """Input embeddings, and output embeddings of their own."""
    read: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118
                if name.endswith(("wte.weight", "embed_tokens.weight", "lm_head.weight")):
                    read["output" if "lm_head" in name else "input"] = stored.get_tensor(name).float()
    return list(read.values())


def main() -> None:
    asked = options(__doc__).parse_args()
    torch.set_num_threads(1)
    peer = find_spec("mergekit")
    if peer is None or peer.origin is None:
        cannot("mergekit is not installed: `make peers` does it")
    home = str(Path(peer.origin).parent.parent)
    sizes = [("tiny", 64, 2_000)] if asked.quick else [("tiny", 64, 2_000), ("mid", 512, 8_000)]
    with measurements(__doc__, asked) as table, tempfile.TemporaryDirectory() as made:
        for name, width, size in sizes:
            for shape in ("GPT-2", "Llama"):
                table.add(f"{shape}, {name}", **compared(Path(made) / f"{shape}-{name}", home, shape, width, size))


def compared(place: Path, home: str, shape: str, width: int, size: int) -> dict[str, int | float]:
    place.mkdir()
    model, donor, ours, theirs = (place / name for name in ("model", "donor", "ours", "theirs"))
    write_model(model, shape, width, 1, size)
    write_model(donor, shape, width, 2, size)
    atoms = str(min(ATOMS, width // 2))
    surgeon = "from mergekit.scripts.tokensurgeon import main; main()"
    common = (str(model), str(donor), str(theirs), "-k", atoms, "--approximation-method", "omp")
    their_seconds = seconds_of([sys.executable, "-c", surgeon, *common], home)
    command = [sys.executable, "-m", "subgraft", "transfer", "--model", str(model), "--vocab", str(donor)]
    our_seconds = seconds_of([*command, "--method", "donor", "--atoms", atoms, "--out", str(ours)])
    old, new = load_tokenizers(model)["decoder"], load_tokenizers(donor)["decoder"]
    fresh = list(align(old, new).unseen)
    equal = torch.stack([_equal(*both) for both in zip(new_rows(ours, fresh), new_rows(theirs, fresh), strict=True)])
    return {
        "new_tokens": len(fresh),
        "shared_tokens": len(new) - len(fresh),
        "their_CPU_seconds": their_seconds,
        "our_CPU_seconds": our_seconds,
        "theirs_to_ours": their_seconds / our_seconds,
        "rows_that_differ": int((~equal).sum()),
    }


def new_rows(directory: Path, tokens: list[int]) -> list[Tensor]:
    return [table[tokens] for table in tables(directory)]


def _equal(ours: Tensor, theirs: Tensor) -> Tensor:
    """Whether rows differ by no more than a 100,000th of the largest number."""
    return (ours - theirs).abs().max(dim=1).values <= 1e-5 * theirs.abs().max()


if __name__ == "__main__":
    main()
