# mypy: allow-untyped-calls
"""Export to CTranslate2: to a directory, or in memory for a search with CTranslate2.

CTranslate2's own loaders are used, with a vocabulary for each side. Its converter supports one vocabulary for both
sides and drops a Marian's padding row, which must be the last. Here every row remains: decoding starts with the same
row as in transformers.
"""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Family, family_of
from subgraft.modeling.families.heads import kind_of_class
from subgraft.modeling.heads import head_of, require_head_of_transformers
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.ctranslate2_directory import SETTINGS, ExportedModel, ExportSettings
from subgraft.modeling.inference.ctranslate2_encoder import HEAD, load_exported_head
from subgraft.modeling.inference.ctranslate2_search import (
    ExportedContinuer,
    ExportedTranslator,
    FastContinuer,
    FastTranslator,
    engine,
)
from subgraft.modeling.inference.int8_products import choose_library
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.modeling.inference.search import end_tokens
from subgraft.modeling.load import load_model
from subgraft.modeling.tokenizers import languages_at, load_tokenizers, save_tokenizers

USE_TRANSFORMERS = (
    "transformers can: write `engine: transformers` under evaluation, and `dev_engine: transformers` under finetune or "
    "pretrain for dev scores."
)
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16")
# The mean deviation in nats above which outputs may be worse: probabilities differ by a tenth.
NOTEWORTHY = 0.1
# The largest deviation of a token's log-probability by rounding in fp32, and the largest mean one in coarser types.
TOLERANCE, COARSE_TOLERANCE = 0.01, 1.0
# The size of the check: sequences, and tokens in each.
_SEQUENCES, _LENGTH = 8, 12


class Check(NamedTuple):
    """The largest and the mean deviation from transformers, for random tokens: of their log-probabilities, or of the
    outputs of a classifying head.
    """

    largest: float
    mean: float


def export_ctranslate2(
    model: Path | str, out: Path, quantization: str = "float32", languages: Languages | None = None
) -> Check:
    """Export a model to an empty directory, for `ExportedModel.open`, and compare it with the original.

    Of a model with a classifying head, CTranslate2 runs the encoder.

    Args:
        model: A model directory or hub id.
        out: The empty directory.
        quantization: The type of the exported weights.
        languages: For models with language codes; by default those in the model's files.

    Raises:
        UserError: Languages are required and unknown, CTranslate2 is not installed or does not support the model, or
            the exported model computes something else.
    """
    if quantization.startswith("int8"):
        choose_library()
    require_ctranslate2()
    directory = require_model(model)
    languages = languages_at(directory, languages)
    tokenizers = load_tokenizers(directory)
    bundle = Bundle.of_sides(load_model(directory, torch.float32), tokenizers)
    if head_of(bundle.model) is not None:
        require_head_of_transformers(bundle.model, str(model))
        settings = ExportSettings(model=_stored_config(bundle.model), languages=languages, quantization=quantization)
        with_head = ExportedModel(out, settings, bundle.encoder, bundle.decoder)
        save_tokenizers(tokenizers, out)
        return _summarize(export_encoder(bundle, with_head), quantization, str(model), "outputs differ")
    exported = prepare_export(bundle, out, quantization, languages)
    comparison = Comparison(exported, bundle)
    write_exported(exported, bundle)
    save_tokenizers(tokenizers, out)
    return comparison.check(engine(exported), str(model))


def require_ctranslate2() -> None:
    """Raises UserError if CTranslate2 is not installed."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise UserError("CTranslate2 is not installed", hint="pip install 'subgraft[ctranslate2]'") from error


def _stored_config(model: PreTrainedModel) -> dict[str, Any]:
    """The model's configuration without the path that it was loaded from, which may be a temporary folder."""
    return {name: value for name, value in model.config.to_dict().items() if name != "_name_or_path"}


def prepare_export(bundle: Bundle, out: Path, quantization: str, languages: Languages | None) -> ExportedModel:
    """The description of an export, whose files are not written yet. Raises UserError as `export_ctranslate2` does."""
    model, generation = bundle.model, cast(Any, bundle.model.generation_config)
    penalties = {name: getattr(generation, name, None) for name in ("repetition_penalty", "no_repeat_ngram_size")}
    search = {name: float(value) for name, value in penalties.items() if value}
    if generation.length_penalty is not None:
        search["length_penalty"] = float(generation.length_penalty)
    settings = ExportSettings(
        model=_stored_config(model), languages=languages, quantization=quantization, search=search
    )
    exported = ExportedModel(out, settings, bundle.encoder, bundle.decoder)
    names, start = exported.vocabularies()["decoder"], exported.sequence_format().start
    suppressed: list[list[int]] = getattr(generation, "bad_words_ids", None) or []
    decoding = {
        "suppressed": [[names[token] for token in sequence] for sequence in suppressed],
        # A start that depends on the language is not recorded.
        "start": None if start in bundle.decoder.languages.values() else names[start],
        "further_ends": list(end_tokens(model, bundle.decoder)[1:]),
    }
    return replace(exported, settings=settings.model_copy(update=decoding))


def write_exported(exported: ExportedModel, bundle: Bundle) -> None:
    """Write all files except the tokenizers' to the exported model's empty directory: CTranslate2's, and subgraft.json.

    A float32 model is unchanged; the weights of others are consumed. Raises UserError as `export_ctranslate2` does.
    """
    family, model = family_of(bundle.model), bundle.model
    known = family.runs_in_ctranslate2(model.config.to_dict())
    specification = family.ctranslate2_specification(_sharing_weights(model) if known else model)  # raises if not known
    names, special = exported.vocabularies(), exported.decoder.special
    if "encoder" in names:
        specification.register_source_vocabulary(list(names["encoder"]))
        specification.register_target_vocabulary(list(names["decoder"]))
        specification.config.decoder_start_token = exported.settings.start
    else:
        specification.register_vocabulary(list(names["decoder"]))
    end = special["eos"]
    specification.config.eos_token = names["decoder"][end]
    specification.config.bos_token = names["decoder"][special.get("bos", special.get("pad", end))]
    specification.config.unk_token = names["decoder"][special.get("unk", end)]
    specification.validate()
    specification.optimize(quantization=exported.settings.quantization)
    specification.save(str(exported.directory))
    (exported.directory / SETTINGS).write_text(exported.settings.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _sharing_weights(model: PreTrainedModel) -> PreTrainedModel:
    """A second model on the CPU that shares the weights, because loaders modify modules and configurations.

    It is constructed instead of copied, because a model in training may have an engine's hooks, which cannot be copied.
    """
    with torch.device("meta"):
        copy: PreTrainedModel = type(model)(deepcopy(model.config))
    tensors = {id(tensor): tensor.detach().cpu() for tensor in (*model.parameters(), *model.buffers())}
    for name, module in copy.named_modules():
        original = model.get_submodule(name)
        for key, tensor in original._parameters.items():
            module._parameters[key] = None if tensor is None else nn.Parameter(tensors[id(tensor)], requires_grad=False)
        for key, buffer in original._buffers.items():
            module._buffers[key] = None if buffer is None else tensors[id(buffer)]
    return copy


class _Sample:
    """Sequences of random tokens on which both engines are compared. They are the same for every call."""

    def __init__(self, exported: ExportedModel) -> None:
        self._exported = exported
        random = torch.Generator().manual_seed(0)
        form = exported.sequence_format()

        def sample(tokens: list[int]) -> list[list[int]]:
            indices = torch.randint(len(tokens), (_SEQUENCES, _LENGTH), generator=random).tolist()
            return [[tokens[index] for index in row] for row in indices]

        sources = sample(exported.encoder.ordinary_ids.tolist())
        targets = sample(exported.decoder.ordinary_ids.tolist())
        target_beginning = [] if form.target_beginning is None else [form.target_beginning]
        self.sources = [[*form.source_beginning, *tokens, *form.source_ending] for tokens in sources]
        self.targets = [[form.start, *target_beginning, *tokens] for tokens in targets]

    @torch.inference_mode()
    def expected(self, model: PreTrainedModel) -> Tensor:
        """Log-probabilities [n, T] of each target token after the first."""
        device = next(model.parameters()).device
        inputs = {"input_ids": torch.tensor(self.targets, device=device)}
        if "encoder" in self._exported.sides:
            inputs = {"input_ids": torch.tensor(self.sources, device=device), "decoder_input_ids": inputs["input_ids"]}
        logits = model(**inputs, use_cache=False).logits[:, :-1].float().cpu()
        labels = torch.tensor(self.targets)[:, 1:, None]
        log_probabilities: Tensor = logits.log_softmax(-1).gather(2, labels)[..., 0]
        return log_probabilities

    def actual(self, runner: Any) -> Tensor:
        """The same from the exported model. runner: CTranslate2's translator or generator."""
        names = self._exported.vocabularies()
        targets = [[names["decoder"][token] for token in row] for row in self.targets]
        if "encoder" not in names:
            scored = runner.score_batch(targets)
            return torch.tensor([result.log_probs for result in scored])[:, : len(self.targets[0]) - 1]
        sources = [[names["encoder"][token] for token in row] for row in self.sources]
        if self._exported.settings.start is not None:
            targets = [row[1:] for row in targets]
        scored = runner.score_batch(sources, targets)
        return torch.tensor([result.log_probs for result in scored])[:, : len(self.targets[0]) - 1]


class Comparison:
    """Compares the exported model's log-probabilities of random tokens with those of the model before its export."""

    def __init__(self, exported: ExportedModel, bundle: Bundle) -> None:
        self._quantization = exported.settings.quantization
        self._sample = _Sample(exported)
        model = bundle.model if bundle.model.dtype == torch.float32 else deepcopy(bundle.model).float()
        self._expected = self._sample.expected(model)

    def check(self, running: Any, where: str) -> Check:
        """The deviation of CTranslate2's engine `running`. Raises UserError if it is too large."""
        difference = (self._expected - self._sample.actual(running)).abs()
        return _summarize(difference, self._quantization, where, "log-probabilities differ")


def _summarize(difference: Tensor, quantization: str, where: str, what: str) -> Check:
    """Summarise the deviations of an exported model's outputs. Raises UserError if they are too large."""
    check = Check(difference.max().item(), difference.mean().item())
    if check.mean > COARSE_TOLERANCE or (quantization == "float32" and check.largest > TOLERANCE):
        deviation = f"{what} by up to {check.largest:.3g}"
        raise UserError(f"CTranslate2's outputs differ from this model's: {deviation}", where=where)
    return check


def fast_translator(
    bundle: Bundle, languages: Languages | None, *, beam: int, max_length_ratio: float, check: bool = True
) -> FastTranslator:
    """A translator with a copy of the model's current weights, on the GPU if there is one.

    check: whether both engines are compared first, as in an export. Raises UserError if CTranslate2 is not installed,
    does not support the model or computes something else.
    """
    exported, running = _load_fast(bundle, languages, check)
    limits: dict[str, Any] = {"beam": beam, "max_length_ratio": max_length_ratio}
    search = ExportedTranslator(exported, languages, running=running, **limits)
    form = bundle.sequence_format(languages)
    return FastTranslator(
        search, bundle.model, bundle.encoder, bundle.decoder, form, max_positions=bundle.max_positions, **limits
    )


def fast_continuer(
    bundle: Bundle,
    languages: Languages | None,
    *,
    beam: int,
    max_length_ratio: float,
    max_tokens: int | None = None,
    chat: ChatTemplate | None = None,
) -> FastContinuer:
    """The same for a decoder-only model."""
    exported, running = _load_fast(bundle, languages, check=True)
    limits: dict[str, Any] = {"beam": beam, "max_length_ratio": max_length_ratio, "max_tokens": max_tokens}
    search = ExportedContinuer(exported, languages, running=running, chat=chat, **limits)
    start = bundle.sequence_format(languages).start
    settings = {"max_positions": bundle.max_positions, "chat": chat}
    return FastContinuer(search, bundle.model, bundle.decoder, start, **settings, **limits)


def _load_fast(bundle: Bundle, languages: Languages | None, check: bool) -> tuple[ExportedModel, Any]:
    """Export a model to a temporary folder, and load it in CTranslate2. Leaves the model in evaluation mode."""
    require_ctranslate2()
    bundle.model.eval()
    try:
        with tempfile.TemporaryDirectory(prefix="subgraft-ctranslate2-") as folder:
            exported = prepare_export(bundle, Path(folder), "float32", languages)
            comparison = Comparison(exported, bundle) if check else None
            write_exported(exported, bundle)
            running = engine(exported)
        if comparison is not None:
            comparison.check(running, str(bundle.model.name_or_path or bundle.model.config.model_type))
    except UserError as error:
        raise UserError(error.what, where=error.where, hint=error.hint or USE_TRANSFORMERS) from error
    return exported, running


def export_encoder(bundle: Bundle, exported: ExportedModel) -> Tensor:
    """Write all files except the tokenizers' to the exported model's empty directory. Consumes the model.

    Returns:
        The absolute differences between the head's outputs for random tokens and the model's [n].

    Raises:
        UserError: CTranslate2 does not support the encoder.
    """
    model, directory = bundle.model, exported.directory
    random = torch.Generator().manual_seed(0)
    ordinary = torch.tensor(bundle.encoder.ordinary_ids.tolist())
    ids = ordinary[torch.randint(len(ordinary), (_SEQUENCES, _LENGTH), generator=random)]
    mask = torch.ones_like(ids)
    mask[_SEQUENCES // 2 :, _LENGTH // 2 :] = 0  # the second half of the rows is shorter
    inputs = {"input_ids": torch.where(mask.bool(), ids, bundle.padding[0]), "attention_mask": mask}
    expected = _outputs(model, inputs)
    prefix = f"{model.base_model_prefix}."
    head = {name: each.contiguous() for name, each in model.state_dict().items() if not name.startswith(prefix)}
    save_file(head, directory / HEAD)
    specification = _specification(model)
    names = next(iter(exported.vocabularies().values()))  # an encoder has one vocabulary
    specification.register_vocabulary(list(names))
    specification.config.unk_token = names[bundle.encoder.special.get("unk", 0)]
    specification.config.layer_norm_epsilon = getattr(model.config, "layer_norm_eps", 1e-12)
    specification.validate()
    specification.optimize(quantization=exported.settings.quantization)
    specification.save(str(directory))
    (directory / SETTINGS).write_text(exported.settings.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return (_outputs(load_exported_head(exported).model, inputs) - expected).abs().flatten()


def _specification(model: PreTrainedModel) -> Any:
    """CTranslate2's specification of the body. Raises UserError if CTranslate2 does not support it."""
    from ctranslate2.converters import transformers as loaders

    family: Family = family_of(model)
    body: Any = model.base_model
    if family.ctranslate2_encoder is None or body is model:
        hint = "`subgraft export --to transformers` writes what transformers loads."
        raise UserError(f"CTranslate2 has no encoder for a {family.model_type} model with a head", hint=hint)
    if getattr(body, "pooler", body) is None:
        # BERT's loader expects a pooler; heads of this kind do not read its output.
        width = family.width(model.config.to_dict())
        body.pooler = SimpleNamespace(dense=nn.Linear(width, width))
    model.config.position_embedding_type = getattr(model.config, "position_embedding_type", "absolute")
    try:
        return getattr(loaders, family.ctranslate2_encoder)().get_model_spec(body)
    except (NotImplementedError, KeyError, AssertionError) as error:
        raise UserError(f"CTranslate2 cannot run this {family.model_type} model: {error}") from error


@torch.inference_mode()
def _outputs(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    """The head's outputs of each row, or of its tokens that are not padding."""
    kind = kind_of_class(type(model).__name__)
    outputs = model(**({name: each[:, None] for name, each in inputs.items()} if kind == "choice" else inputs))
    spans = kind == "span"
    logits: Tensor = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1) if spans else outputs.logits
    return logits[inputs["attention_mask"].bool()] if kind in ("span", "tokens") else logits
