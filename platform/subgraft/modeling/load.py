# mypy: allow-untyped-calls
"""Loading models from directories and the hub, and saving them: safetensors only, and no code from outside."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel, modeling_utils
from transformers.utils import logging as transformers_logging

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import Family, count_parameters, head_in
from subgraft.modeling.families.heads import NEXT_SENTENCE
from subgraft.modeling.generation_settings import savable
from subgraft.modeling.heads import body_class, class_with_head
from subgraft.modeling.hub import HUB_FILES, adapter_base, family_at, is_adapter, read_config, require_model
from subgraft.modeling.lora import merge_into
from subgraft.modeling.tokenizers import save_tokenizers
from subgraft.modeling.weights import require_plausible, weight_names, weights_alone
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# A layer above BERT's first state, pretrained with its prediction of next sentences.
_POOLER = "pooler"


def load_model(model: Path | str, dtype: torch.dtype | None = None, *, next_sentence: bool = False) -> PreTrainedModel:
    """A model from a directory or hub id, on the CPU, in evaluation mode, in its stored type unless `dtype` is set.

    next_sentence: whether to load a head for next sentences that the weights have, even if config.json names another
    class, as that of bert-base-uncased does.

    A LoRA adapter is merged into the model that it names as its base.

    Raises:
        UserError: The directory has no model, its family is not supported, its weights are not safetensors, or they do
            not match the configuration.
    """
    directory = require_model(model)
    if (base := adapter_base(directory, str(model), HUB_FILES)) is not None:
        merged, _ = merge_into(load_model(base, dtype), directory, base)
        merged.name_or_path = merged.config.name_or_path = str(directory)
        return merged
    family, names = family_at(directory, str(model)), weight_names(directory)
    config = family.completed(read_config(directory), names)
    if next_sentence and family.next_sentence_class and any(NEXT_SENTENCE in name for name in names):
        config = {**config, "architectures": [family.next_sentence_class]}
    try:
        head = head_in(config)
        kind = family.class_of(config) if head is None else class_with_head(config, head.kind)
    except UserError as error:
        raise UserError(error.what, where=str(directory), hint=error.hint) from error
    loaded, missing = _load_weights(kind, config, family, directory, dtype)
    if missing:
        what, needed = f"{len(missing)} weights are missing, among them {missing[0]}", type(loaded).__name__
        named = config.get("architectures")
        other = named[0] if isinstance(named, list) and named and named[0] != needed else None
        hint = f"config.json says that it is a {other!r:.60}, and a {needed} is needed." if other else ""
        raise UserError(what, where=str(directory), hint=hint)
    family.post_init(loaded)
    return loaded


def load_body(model: Path | str, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """The body of a model, for `with_head`: with BERT's pretrained pooler, if the weights include one.

    Weights of heads are not needed, so a checkpoint may have none. For an adapter, and for a model whose head is part
    of every class, the complete model is loaded. Raises UserError as `load_model` does.
    """
    directory = require_model(model, body=True)
    config, family = read_config(directory), family_at(directory, str(model), body=True)
    kind = body_class(config)
    if kind is None or family.retained_head or is_adapter(directory):
        return load_model(model, dtype)
    loaded, missing = _load_weights(kind, family.completed(config, weight_names(directory)), family, directory, dtype)
    missing_of_body = [name for name in missing if not name.startswith(_POOLER)]
    if missing_of_body:
        raise UserError(
            f"{len(missing_of_body)} weights are missing, among them {missing_of_body[0]}", where=str(directory)
        )
    if missing:  # transformers has initialised the pooler, without a seed
        setattr(loaded, _POOLER, None)
    return loaded


def _load_weights(
    kind: Any, config: Mapping[str, Any], family: Family, directory: Path, dtype: torch.dtype | None
) -> tuple[PreTrainedModel, list[str]]:
    """The model of a directory as a class of transformers, and the names of the weights that it lacks.

    config: completed by the family.
    """
    try:
        with _suppress_output():
            settings: PreTrainedConfig = kind.config_class.from_dict(deepcopy({**config}))
    except Exception as error:  # transformers raises errors of any type
        raise UserError(f"config.json cannot be used: {error}", where=str(directory)) from error
    entries = settings.to_dict()
    require_plausible(directory, count_parameters(entries).total + family.computed_numbers(entries))
    with _suppress_output(), weights_alone(directory, config) as weights:
        try:
            loaded, information = kind.from_pretrained(
                weights,
                config=settings,
                dtype=dtype or "auto",
                use_safetensors=True,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # raised below, with the sizes
                output_loading_info=True,
            )
        except Exception as error:
            message = str(error).replace(str(weights), str(directory)) or type(error).__name__
            raise UserError(f"the weights cannot be loaded: {message}", where=str(directory)) from error
    loaded.name_or_path = loaded.config.name_or_path = str(directory)
    _require_sizes(information["mismatched_keys"], config, kind.base_model_prefix, directory)
    assert isinstance(loaded, PreTrainedModel)
    _require_finite(loaded, directory)
    return loaded, sorted(name for name in information["missing_keys"] if not name.startswith(family.absent_weights))


def _require_sizes(mismatched: Iterable[Any], config: Mapping[str, Any], body: str, directory: Path) -> None:
    """Raises UserError if sizes of weights differ from the configuration's.

    Args:
        mismatched: transformers' list of them.
        config: The configuration.
        body: The beginning of the names of weights that belong to no head.
        directory: The model's directory.
    """
    for name, stored, configured in sorted(mismatched):
        message = (
            f"the weights cannot be loaded: {name} has the size {list(stored)}, and config.json's is {list(configured)}"
        )
        head = head_in(config)
        is_of_head = not name.startswith(f"{body}.")
        is_classifier = head is not None and is_of_head and configured[0] == len(head.labels) != stored[0]
        hint = (
            f"Its labels (id2label) are {len(head.labels)}, the weights' {stored[0]}." if head and is_classifier else ""
        )
        raise UserError(message, where=str(directory), hint=hint)


def _require_finite(model: PreTrainedModel, directory: Path) -> None:
    """Raises UserError if a weight is NaN or infinite: every output would be, and labels would be predicted from it."""
    for name, parameter in model.named_parameters():
        # Both ends are NaN if any number is; unlike `isfinite`, this needs no second tensor.
        if parameter.numel() and not torch.stack(torch.aminmax(parameter.detach())).isfinite().all():
            hint = "The training that wrote them has diverged, or the file is damaged."
            raise UserError(f"the weights cannot be used: {name} has NaN or infinity", where=str(directory), hint=hint)


def save_model(model: PreTrainedModel, tokenizers: Mapping[SideName, Tokenizer], directory: Path) -> None:
    """Write configuration, weights and tokenizers, which `load_model` and `load_tokenizers` read.

    A split mBART's directory also gets a copy of its module, for AutoModelForSeq2SeqLM with trust_remote_code.
    """
    save_without_tokenizers(model, directory)
    save_tokenizers(tokenizers, directory)


def save_without_tokenizers(model: PreTrainedModel, directory: Path) -> None:
    """Write configuration, generation settings and weights; invalid settings are omitted and reported."""
    own: Any = getattr(model, "generation_config", None)
    unwrap, saves_generation = modeling_utils.unwrap_model, own is not None and model.can_generate()
    with _suppress_output():
        try:
            if saves_generation:  # a model in training needs its own again
                model.generation_config = savable(own)
            # Models are never wrapped here. To ask accelerate would import DeepSpeed, which takes a second of CPU time
            # in every worker and prints to standard output.
            modeling_utils.unwrap_model = lambda model, recursive=False: model
            model.save_pretrained(directory)
        finally:
            modeling_utils.unwrap_model = unwrap
            if saves_generation:
                model.generation_config = own
    for weights in directory.glob("*.safetensors"):
        weights.chmod(0o644)  # safetensors leaves files that only their owner can read


@contextmanager
def _suppress_output() -> Iterator[None]:
    """Suppress progress bars and reports on weights; problems are raised as errors."""
    enabled, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    disabled = logging.root.manager.disable
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        transformers_logging.set_verbosity(verbosity)
        if enabled:
            transformers_logging.enable_progress_bar()
