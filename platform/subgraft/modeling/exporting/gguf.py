# mypy: allow-untyped-calls
"""Export to GGUF, the format of llama.cpp, which Ollama, LM Studio and others read.

The vocabulary is written as it is, and how its text is split by its own rule, not by a list of known models. Where
llama.cpp is installed, it reads the file, and its token ids and log-probabilities are compared with this model's.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.base.security.gguf_header import GgufFile, read_gguf
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.gguf_files import FILE, gguf_names, require_gguf, require_layout
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.llama_cpp import LlamaCpp, is_installed
from subgraft.modeling.inference.prompts import chat_template
from subgraft.modeling.inference.search import end_tokens
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE
from subgraft.subwords.vocabulary.llama_cpp import NOT_NORMALISED, ROLES, LlamaCppVocabulary, for_llama_cpp

WEIGHT_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "f32")
RECORD, MODELFILE = "export.json", "Modelfile"
# Matrices that llama.cpp's loaders want unrounded, by the ends of their names.
_UNROUNDED = ("position_embd.weight", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
_LARGEST_HALF = float(np.finfo(np.float16).max)
# The check: texts, the least share of them with the same ids, prompts, tokens in each, and next tokens compared.
_TEXTS, _SHARE, _PROMPTS, _LENGTH, _COMPARED = 1000, 0.99, 8, 12, 10
# The largest deviation of a log-probability in fp32, where llama.cpp looks GELU up in half precision, and the largest
# mean deviation by type: three times that of SmolLM2 or more (docs/measurements/decoding-engines.md).
TOLERANCE = 0.05
MEAN_TOLERANCES = {"f32": TOLERANCE, "f16": 0.05, "bf16": 0.15, "q8_0": 0.4}
MEAN_TOLERANCES |= {"q5_1": 2.5, "q5_0": 2.5, "q4_1": 2.5, "q4_0": 5.0}
_HARD = (
    "don't I'LL we'Ve",
    "  two   spaces and\ttabs\n\n",
    "in 2024, 1,234.5 % of 3rd",
    "naïve Straße cœur — «été»",
    "日本語と中文、한국어",
    "☃😀👩‍👩‍👧",
    "for (int i=0;i<n;++i) {\r\n    x[i] += 1;\n}",
    "e\u0301 \u0939\u093f\u0928\u094d\u0926\u0940 العربية",
    "http://example.org/?q=1&r=<b>x</b>",
    "UPPERCase snake_case",
)


class Comparison(NamedTuple):
    """A comparison with this model: texts with the same ids among `texts`, and deviations of log-probabilities."""

    same: int
    texts: int
    largest: float
    mean: float


class GgufExport(NamedTuple):
    """A written file.

    Attributes:
        comparison: With the model; None where llama.cpp is not installed.
        limits: What llama.cpp does differently.
    """

    comparison: Comparison | None
    limits: tuple[str, ...]


def export_gguf(model: Path | str, out: Path, weights: str = "f16", template: Path | None = None) -> GgufExport:
    """Write a language model to an empty directory: model.gguf, a Modelfile for Ollama, and a record of the check.

    Args:
        model: A model directory or hub id.
        out: The empty directory.
        weights: The type of matrices; norms and biases are in fp32.
        template: A GGUF of the model that this one was made of; entries that are not written here are copied from it,
            such as its licence, and its template of conversations if the model has none.

    Raises:
        UserError: The package gguf is not installed, llama.cpp lacks something that the model or its vocabulary needs,
            or what it reads or computes is something else.
    """
    require_gguf()
    directory = require_model(model)
    bundle = Bundle.load(directory, dtype=torch.float32)
    config = bundle.model.config.to_dict()
    layout = require_layout(family_of(bundle.model), config, str(model))
    vocabulary = for_llama_cpp(bundle.decoder, len(side(bundle.model, "decoder").input.weight))
    entries = {f"tokenizer.ggml.{key}": value for key, value in _special(bundle).items()}
    if chat := chat_template(bundle.decoder):
        entries[f"tokenizer.{CHAT_TEMPLATE}"] = chat
    if template is not None:
        entries = _of_template(template, layout.architecture) | entries
    write_gguf(out / FILE, bundle, entries, vocabulary, weights)
    limits = (*layout.limits(config), *vocabulary.all_limits)
    comparison = None
    if is_installed():
        comparison = compare(out / FILE, bundle, weights, str(model), composed=NOT_NORMALISED in vocabulary.limits)
    compared = None if comparison is None else comparison._asdict()
    lost = {"limits": limits, "lost_flags": vocabulary.lost_flags}
    record = {"weights": weights, "splitting": vocabulary.splitting, **lost, "comparison": compared}
    (out / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    stops = [json.dumps(bundle.decoder.pieces[i], ensure_ascii=False) for i in end_tokens(bundle.model, bundle.decoder)]
    # Ollama reads the template of conversations in the file.
    modelfile = "".join([f"FROM ./{FILE}\n", *(f"PARAMETER stop {piece}\n" for piece in stops)])
    (out / MODELFILE).write_text(modelfile, encoding="utf-8")
    return GgufExport(comparison, limits)


def _special(bundle: Bundle) -> dict[str, Any]:
    """Special tokens, and whether they are added to texts.

    A model with a template of conversations gets those that its own tokenizer adds; others get the token with which
    `generate` starts.
    """
    tokenizer, ends = bundle.decoder, end_tokens(bundle.model, bundle.decoder)
    start = bundle.sequence_format(None).start
    special: dict[str, Any] = {f"{ROLES[role]}_token_id": i for role, i in tokenizer.special.items() if role in ROLES}
    special |= {"bos_token_id": start, "eos_token_id": ends[0]}
    if len(ends) > 1:
        special["eot_token_id"] = ends[1]
    begins, stops = True, False
    if CHAT_TEMPLATE in tokenizer.config:
        ids: list[int] = tokenizer.backend.encode("", add_special_tokens=True).ids
        begins, stops = bool(ids) and ids[0] == special["bos_token_id"], bool(ids) and ids[-1] == ends[0] != ids[0]
    return {**special, "add_bos_token": begins, "add_eos_token": stops}


def _of_template(template: Path, architecture: str) -> dict[str, Any]:
    """The entries of another GGUF that do not depend on the weights and the vocabulary."""
    entries = read_gguf(template).entries
    if entries.get("general.architecture") != architecture:
        what = f"a GGUF of {entries.get('general.architecture')!r:.40}, and this model is of {architecture!r}"
        raise UserError(what, where=str(template), hint="Give the GGUF of the model that this one was made of.")
    computed = ("tokenizer.ggml.", f"{architecture}.", "split.", "quantize.", "general.architecture")
    computed_too = ("general.file_type", "general.quantization_version", "general.alignment")
    return {key: value for key, value in entries.items() if not key.startswith((*computed, *computed_too))}


def write_gguf(
    file: Path, bundle: Bundle, entries: Mapping[str, Any], vocabulary: LlamaCppVocabulary, weights: str
) -> None:
    """Write a model of a family that llama.cpp has. Raises UserError for what it would compute differently."""
    import gguf

    family, config = family_of(bundle.model), bundle.model.config.to_dict()
    assert family.gguf is not None
    architecture = family.gguf.architecture
    sizes = {f"{architecture}.{key}": value for key, value in family.gguf.settings(config).items()}
    writer = gguf.GGUFWriter(file, architecture)
    for key, value in {**sizes, **entries}.items():
        _add(writer, key, value)
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if weights == "f32" else f"MOSTLY_{weights.upper()}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _add_vocabulary(writer, vocabulary)
    name_of = gguf_names(architecture, config[family.layers_key])
    own = {name_of(name): family.gguf.arranged(name, each, config) for name, each in bundle.model.named_parameters()}
    tensors = {**own, **family.gguf.further_tensors(config)}
    types = {name: _type_of(name, tensor, weights) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        block, size = gguf.GGML_QUANT_SIZES[types[name]]
        number_of_bytes = tensor.numel() // int(block) * int(size)
        writer.add_tensor_info(name, tensor.shape, np.dtype(np.float32), number_of_bytes, types[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, tensor in tensors.items():  # one after another: only one is in memory twice
        values = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
        if types[name] == gguf.GGMLQuantizationType.F16 and np.abs(values).max(initial=0.0) > _LARGEST_HALF:
            what = f"{name} has numbers above {_LARGEST_HALF:,.0f}, which f16 cannot hold"
            raise UserError(what, hint="Write bf16 or f32.")
        writer.write_tensor_data(gguf.quants.quantize(values, types[name]))
    writer.close()


def copy_gguf(file: GgufFile, out: Path, keys: Collection[str], vocabulary: LlamaCppVocabulary) -> None:
    """Write a GGUF with these keys of its architecture and another vocabulary; its weights stay as they are."""
    import gguf

    writer = gguf.GGUFWriter(out, file.entries["general.architecture"])
    for key, value in file.entries.items():
        if key.removeprefix(f"{file.entries['general.architecture']}.") in keys:
            _add(writer, key, value)
    _add_vocabulary(writer, vocabulary)
    for name, tensor in file.tensors.items():
        kind = gguf.GGMLQuantizationType(tensor.kind)
        writer.add_tensor_info(name, tensor.shape, np.dtype(np.float32), tensor.size, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name in file.tensors:
        writer.write_tensor_data(file.stored(name))
    writer.close()


def _add_vocabulary(writer: Any, vocabulary: LlamaCppVocabulary) -> None:
    writer.add_tokenizer_model(vocabulary.kind)
    writer.add_tokenizer_pre(vocabulary.splitting)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types(list(vocabulary.types))
    if vocabulary.scores:
        writer.add_token_scores(list(vocabulary.scores))
    if vocabulary.merges or not vocabulary.scores:
        writer.add_token_merges(list(vocabulary.merges))
    for key, value in vocabulary.settings.items():
        _add(writer, f"tokenizer.ggml.{key}", value)


def _type_of(name: str, tensor: Tensor, weights: str) -> Any:
    """The type of a tensor: vectors are not rounded, and rows that have no whole blocks are not quantised."""
    import gguf

    types = gguf.GGMLQuantizationType
    if tensor.ndim < 2 or name.endswith(_UNROUNDED):
        return types.F32
    wanted = types[weights.upper()]
    block, _ = gguf.GGML_QUANT_SIZES[wanted]
    return wanted if tensor.shape[-1] % block == 0 else types.F16


def _add(writer: Any, key: str, value: Any) -> None:
    """Add an entry of the type of its value."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        (writer.add_uint32 if value >= 0 else writer.add_int32)(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def compare(file: Path, bundle: Bundle, weights: str, where: str, *, composed: bool = False) -> Comparison:
    """Compare what llama.cpp reads and computes with the model. Raises UserError if it differs too much.

    composed: whether texts are in NFC.
    """
    running = LlamaCpp(file, positions=min(256, bundle.max_positions), threads=torch.get_num_threads())
    same = _compare_texts(running, bundle, where, composed=composed)
    return Comparison(same, _TEXTS, *compare_probabilities(running, bundle, weights, where))


def _compare_texts(running: LlamaCpp, bundle: Bundle, where: str, *, composed: bool) -> int:
    """The number of texts with the same ids. Raises UserError if there are too few."""
    tokenizer, draw = bundle.decoder, _Draw(bundle)
    # Normalised as the tokenizer does, which llama.cpp cannot do for all vocabularies (`limits`).
    drawn_texts = [f"{tokenizer.decode(draw()).strip()} {_HARD[i % len(_HARD)]}" for i in range(_TEXTS)]
    texts = [unicodedata.normalize("NFC", text) for text in drawn_texts] if composed else drawn_texts
    pairs = list(zip(texts, tokenizer.encode_batch(texts), map(running.encode, texts), strict=True))
    same = sum(ours == theirs for _, ours, theirs in pairs)
    if same < _SHARE * len(texts):
        text, ours, theirs = next(pair for pair in pairs if pair[1] != pair[2])
        first = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
        segmentations = [" ".join(tokenizer.pieces[i] for i in ids[first : first + 6]) for ids in (ours, theirs)]
        raise UserError(
            f"llama.cpp segments {len(texts) - same:,} of {len(texts):,} texts differently, such as {text!r:.80}: "
            f"{segmentations[1]!r:.80} instead of {segmentations[0]!r:.80}",
            where=where,
            hint="Export with `--to transformers` instead.",
        )
    return same


def compare_probabilities(running: LlamaCpp, bundle: Bundle, weights: str, where: str) -> tuple[float, float]:
    """The largest and the mean deviation of log-probabilities. Raises UserError if they are too large."""
    difference = deviations(running, bundle)
    largest, mean = difference.max().item(), difference.mean().item()
    if mean > MEAN_TOLERANCES[weights] or (weights == "f32" and largest > TOLERANCE):
        usual = f"{mean:.2g} on average, where {MEAN_TOLERANCES[weights]:g} is the limit for {weights}"
        what = f"log-probabilities differ by up to {largest:.3g}, {usual}"
        raise UserError(f"llama.cpp computes something else than this model: {what}", where=where)
    return largest, mean


@torch.inference_mode()
def deviations(running: LlamaCpp, bundle: Bundle) -> Tensor:
    """Of log-probabilities of llama.cpp's most probable next tokens of some prompts of random tokens."""
    draw, differences = _Draw(bundle), list[Tensor]()
    for _ in range(_PROMPTS):
        ids = draw()
        prompt = [bundle.sequence_format(None).start, *ids]
        theirs = running.log_probabilities(prompt, _COMPARED, written=ids[0])
        logits = bundle.model(torch.tensor([prompt], device=bundle.model.device), use_cache=False).logits
        ours = logits[0, -1].float().cpu().log_softmax(-1)
        differences.append((ours[list(theirs)] - torch.tensor(list(theirs.values()))).abs())
    return torch.cat(differences)


class _Draw:
    """Draws ordinary tokens, the same for every export."""

    def __init__(self, bundle: Bundle) -> None:
        self._ordinary, self._random = bundle.decoder.ordinary_ids, torch.Generator().manual_seed(0)

    def __call__(self) -> list[int]:
        drawn = torch.randint(len(self._ordinary), (_LENGTH,), generator=self._random).numpy()
        return [int(i) for i in self._ordinary[drawn]]
