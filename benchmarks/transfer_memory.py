"""Peak memory of giving an mBART of 610 million parameters a new vocabulary: load, transplant and save in one pass.

The model has random weights and mBART-large's shape, the vocabularies are made of invented syllables: 250,027 upstream
pieces as in mBART-cc25, 32,000 downstream ones. Building them happens in another process, whose memory does not count.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import MBartConfig, MBartForConditionalGeneration

from measurements import measurements, options
from subgraft.config.settings_base import SideName
from subgraft.embeddings.methods.registry import METHODS
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.load import save_model
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

UPSTREAM_SIZE, DOWNSTREAM_SIZE = 250_027, 32_000
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "de_DE", "en_XX")
GIBIBYTE = 2**30
QUICK = 2  # layers of either side
RESULT = "result.json"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    plain = [name for name in METHODS if not METHODS[name].trained and not METHODS[name].static]
    parser.add_argument("--method", choices=plain, default="avg")
    parser.add_argument("--sides", choices=("decoder", "encoder,decoder"), default="decoder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _in_a_process_of_its_own(_build, folder, arguments.precision, QUICK if arguments.quick else None)
        _in_a_process_of_its_own(_transfer, folder, arguments.method, tuple(arguments.sides.split(",")))
        before, peak, seconds = json.loads((folder / RESULT).read_text())
    with measurements(__doc__, arguments) as table:
        table.add(f"transfer by {arguments.method}", peak_GiB=peak, of_it_libraries=before, CPU_seconds=seconds)


def _in_a_process_of_its_own(work: object, *arguments: object) -> None:
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)  # type: ignore[arg-type]
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def _build(folder: Path, precision: str, layers: int | None) -> None:
    upstream = invented_tokenizer(UPSTREAM_SIZE, seed=1)
    invented_tokenizer(DOWNSTREAM_SIZE, seed=2).save(folder / "vocabulary")
    config = MBartConfig(vocab_size=len(upstream), scale_embedding=True)
    if layers is not None:
        config.encoder_layers = config.decoder_layers = layers
    torch.set_default_dtype(torch.float32 if precision == "fp32" else torch.bfloat16)
    model = MBartForConditionalGeneration(config)
    (folder / "model").mkdir()
    save_model(model, {"encoder": upstream, "decoder": upstream}, folder / "model")
    written = sum(path.stat().st_size for path in (folder / "model").glob("*.safetensors"))
    print(f"{model.num_parameters():,} parameters, {written / GIBIBYTE:.2f} GiB of weights in {precision}", flush=True)


def _transfer(folder: Path, method: str, sides: tuple[SideName, ...]) -> None:
    before, started = _peak(), time.process_time()
    target = Tokenizer.load(folder / "vocabulary")
    (folder / "out").mkdir()
    reports = transfer(folder / "model", dict.fromkeys(sides, target), Method(method), folder / "out")
    seconds = time.process_time() - started
    for side, report in reports.items():
        print(f"{side}: {report.size:,} tokens, {report.seen:,} seen, {report.unseen:,} unseen by {report.method}")
    (folder / RESULT).write_text(json.dumps([before, _peak(), seconds]))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIBIBYTE


def invented_tokenizer(size: int, seed: int) -> Tokenizer:
    """A unigram vocabulary of so many pieces: special tokens, letters, then words and continuations of syllables."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*SPECIAL[:4], "▁", *letters]
    words = itertools.islice(_words(seed), size - len(pieces) - len(SPECIAL[4:]))
    pieces += [*words, *SPECIAL[4:]]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    added = [(pieces.index(content), content) for content in SPECIAL]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocabulary = [(piece, -8.0 - i / size) for i, piece in enumerate(pieces)]
    specification = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": content, **flags} for i, content in added],
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": vocabulary},
    }
    return Tokenizer(Source(json.dumps(specification), {}))


def _words(seed: int) -> Iterator[str]:
    """Distinct words and continuations of two to five syllables."""
    chooser = random.Random(seed)
    syllables = ["".join(parts) for parts in itertools.product("bdfgklmnprst", "aeiou", ("", "n", "r", "s"))]
    known: set[str] = set()
    while True:
        word = chooser.choice(("▁", "")) + "".join(chooser.choices(syllables, k=chooser.randint(2, 5)))
        if word not in known:
            known.add(word)
            yield word


if __name__ == "__main__":
    main()
