# mypy: allow-untyped-calls
"""Classifying heads: a pretrained model as transformers' own class for sequences, tokens, spans or choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization
from transformers.initialization import no_init_weights
from transformers.models.auto import modeling_auto

from subgraft.base.errors import UserError
from subgraft.config.heads import BilstmSettings, SanSettings
from subgraft.config.settings_base import HeadKind
from subgraft.modeling.families import Config, Head, family_named, family_of, head_in
from subgraft.modeling.families.heads import (
    CHOICE_LABEL,
    CLASS_ENDINGS,
    IN_WORDS,
    OWN_HEAD,
    head_of_kind,
    kind_of_class,
    numbered_labels,
    own_head_in,
)
from subgraft.modeling.own_heads import with_own_head

_NAMES: Mapping[HeadKind, Mapping[str, str]] = {
    "sequence": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "tokens": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "span": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
    "choice": modeling_auto.MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES,
}
# transformers' classes by which its users load each kind.
AUTO_CLASSES: Mapping[HeadKind, str] = {kind: f"AutoModel{ending}" for kind, ending in CLASS_ENDINGS.items()}


def head_class(config: Config | PreTrainedConfig, kind: HeadKind) -> type[PreTrainedModel] | None:
    """The class of this kind of head on such a model, transformers' or the family's own; None where there is none.

    A family without a head for choices gets one for sequences, with one output: the score of a choice.
    """
    import transformers

    entries = config if isinstance(config, Mapping) else config.to_dict()
    own = family_named(entries["model_type"]).head_class(kind)
    if own is not None:
        return own
    name = _NAMES[kind].get(entries["model_type"])
    if name is None and kind == "choice":
        name = _NAMES["sequence"].get(entries["model_type"])
    made: type[PreTrainedModel] | None = None if name is None else getattr(transformers, name)
    return made


def body_class(config: Config) -> type[PreTrainedModel] | None:
    """transformers' class of a model without its head; None where it has no single one."""
    import transformers

    name = modeling_auto.MODEL_MAPPING_NAMES.get(config["model_type"])
    made: type[PreTrainedModel] | None = getattr(transformers, name) if isinstance(name, str) else None
    return made


def head_of(model: PreTrainedModel | Config) -> Head | None:
    """The head of a loaded model or of a config.json; None for models that predict tokens."""
    if isinstance(model, Mapping):
        return head_in(model)
    kind = kind_of_class(type(model).__name__)
    return None if kind is None else head_of_kind(kind, model.config.to_dict())


def require_head_class(config: Config | PreTrainedConfig, kind: HeadKind) -> type[PreTrainedModel]:
    """The class of this kind of head. Raises UserError, which names the supported kinds, if there is none."""
    if (supported_class := head_class(config, kind)) is not None:
        return supported_class
    model_type = config["model_type"] if isinstance(config, Mapping) else config.model_type
    supported = [IN_WORDS[each] for each in _NAMES if head_class(config, each) is not None]
    hint = f"It can have {', or '.join(supported)}." if supported else "Use an encoder such as BERT, a GPT-2 or a BART."
    raise UserError(f"transformers has no {model_type} model with {IN_WORDS[kind]}", hint=hint)


def class_with_head(config: Config, kind: HeadKind) -> type[PreTrainedModel]:
    """The class of the model of a config.json with this kind of head, which may be one of this package.

    Raises UserError as `require_head_class` does, and if the model's body does not support the head.
    """
    own, kind_class = own_head_in(config), require_head_class(config, kind)
    if own is None:
        return kind_class
    require_body_for(own, config, "")
    return with_own_head(kind_class)


def require_body_for(own: SanSettings | BilstmSettings, config: Config, where: str) -> None:
    """Raises UserError unless the model of a config.json is an encoder with enough layers for this package's head."""
    family = family_of(config)
    if family.layers(config, "decoder"):
        hint = "Use an encoder such as BERT."
        raise UserError(f"a {family.model_type} model cannot have the head {own.kind}", where=where, hint=hint)
    layers = family.layers(config, "encoder")
    if isinstance(own, BilstmSettings) and own.concatenated_layers > layers:
        what = f"the head reads {own.concatenated_layers} layers, and the model has {layers}"
        raise UserError(what, where=where, hint=f"Write concatenated_layers: {layers}, or fewer.")


def require_head_of_transformers(model: PreTrainedModel, where: str) -> None:
    """Raises UserError for a model with a head of this package: other programs would load only its body."""
    if (own := own_head_in(model.config.to_dict())) is not None:
        hint = "`subgraft predict`, `evaluate` and `serve` use it; transformers and CTranslate2 would load its body."
        raise UserError(f"only Subgraft has the head {own.kind}", where=where, hint=hint)


def require_token_head(model: PreTrainedModel) -> None:
    """Raises UserError for a model with a classifying head, which does not predict tokens."""
    head = head_of(model)
    if head is not None:
        what = f"this {model.config.model_type} model has {head}, and none that predicts tokens"
        raise UserError(what, where=str(model.name_or_path), hint="Give the model that it was finetuned from.")


def with_head(
    model: PreTrainedModel,
    kind: HeadKind,
    labels: Sequence[str] | int,
    seed: int,
    *,
    problem_type: str | None = None,
    padding_id: int | None = None,
    dropout: float | None = None,
    own: SanSettings | BilstmSettings | None = None,
) -> PreTrainedModel:
    """The model as transformers' class for a kind of head, in evaluation mode; the new head depends on the seed only.

    The result shares the memory of the body's weights with the model, which must not be used afterwards. A head that
    the model has is dropped.

    Args:
        model: A model for which transformers has such a head; `load_body` loads one for this purpose.
        kind: The kind of head.
        labels: The names of the outputs, or their number; ignored for spans and choices.
        seed: The seed of the new weights.
        problem_type: Determines the loss: single_label_classification, multi_label_classification or regression.
        padding_id: For a model whose configuration has none: the head of a decoder reads the last token before padding.
        dropout: The dropout rate of the states that the head reads; by default the configuration's.
        own: The settings of a head of this package, which replaces transformers' head.

    Raises:
        UserError: transformers has no such class, a decoder's head for sequences lacks a padding id, or the body does
            not support the head `own`.
    """
    family = family_of(model)
    kind_class = require_head_class(model.config, kind)
    if own is not None:
        require_body_for(own, model.config.to_dict(), str(model.name_or_path))
        kind_class = with_own_head(kind_class)
    config = _make_config(model, kind, kind_class, labels, problem_type, dropout, own)
    if config.pad_token_id is None:
        config.pad_token_id = padding_id
    if config.pad_token_id is None and family.sides == ("decoder",):
        hint = "Give the id that pads its inputs."
        raise UserError(f"this {family.model_type} model has no padding id, which a head needs", hint=hint)
    return _build(model, kind_class, config, seed, family.retained_head)


def as_class(model: PreTrainedModel, kind: type[PreTrainedModel], seed: int, **entries: Any) -> PreTrainedModel:
    """The model as another class with its body, in evaluation mode; weights that it lacks depend on the seed only.

    The result shares the memory of the weights with the model, which must not be used afterwards. entries: new entries
    of the configuration.
    """
    own = {**model.config.to_dict(), "architectures": [kind.__name__], **entries}
    return _build(model, kind, type(model.config).from_dict(own), seed, retained=("",))


def _build(
    model: PreTrainedModel, kind: type[PreTrainedModel], config: Any, seed: int, retained: tuple[str, ...]
) -> PreTrainedModel:
    """The model as another class. retained: name prefixes of weights outside of the body that are not replaced."""
    with no_init_weights():
        headed: Any = kind(config)
    headed.to(model.dtype)
    # The body's weights, by their names in the new class, and those outside of the body that it has too.
    prefix = "" if headed.base_model is headed else f"{headed.base_model_prefix}."
    weights = {f"{prefix}{name}": tensor for name, tensor in model.base_model.state_dict().items()}
    weights |= {name: each for name, each in model.state_dict().items() if name.startswith(retained)}
    weights = {name: weights[name] for name in headed.state_dict() if name in weights}
    headed.load_state_dict(weights, strict=False, assign=True)  # without a copy
    new_parameters = [parameter for name, parameter in headed.named_parameters() if name not in weights]
    for parameter in new_parameters:
        with torch.no_grad():
            parameter.fill_(float("nan"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _initialise(headed, new_parameters)
    headed.tie_weights()
    headed.to(model.device)
    headed.name_or_path = model.name_or_path
    family_of(model).post_init(headed)
    headed.eval()
    result: PreTrainedModel = headed
    return result


def _make_config(
    model: PreTrainedModel,
    kind: HeadKind,
    kind_class: type[PreTrainedModel],
    labels: Sequence[str] | int,
    problem_type: str | None,
    dropout: float | None,
    own: SanSettings | BilstmSettings | None,
) -> Any:
    entries = {**model.config.to_dict(), "architectures": [kind_class.__name__], "problem_type": problem_type}
    for derived in ("id2label", "label2id", "num_labels", OWN_HEAD):
        entries.pop(derived, None)
    entries |= {OWN_HEAD: own.model_dump(mode="json")} if own else {}
    config = type(model.config).from_dict(entries)
    if kind != "span":  # whose labels are transformers' default
        named = numbered_labels(labels) if isinstance(labels, int) else tuple(labels)
        named = (CHOICE_LABEL,) if kind == "choice" else named
        if not named or len(set(named)) < len(named):
            raise UserError("a head needs at least one label, and labels must be distinct")
        config.id2label = dict(enumerate(named))
        config.label2id = {label: number for number, label in enumerate(named)}
    for name in family_of(model).head_dropout_keys if dropout is not None else ():
        setattr(config, name, dropout)
    return config


@torch.no_grad()
def _initialise(model: PreTrainedModel, new_parameters: Sequence[nn.Parameter]) -> None:
    """Initialise new parameters as transformers does for this class; all others stay unchanged."""
    new_ids = {id(parameter) for parameter in new_parameters}
    loaded = [parameter for parameter in model.parameters() if id(parameter) not in new_ids]
    for parameter in loaded:
        parameter._is_hf_initialized = True  # type: ignore[attr-defined]
    with initialization.guard_torch_init_functions():
        for module in reversed(list(model.modules())):
            if any(id(parameter) in new_ids for parameter in module.parameters()):
                model._init_weights(module)
    for parameter in loaded:
        del parameter._is_hf_initialized  # type: ignore[attr-defined]
    assert all(parameter.isfinite().all() for parameter in new_parameters), "transformers initialises no such weight"


def head_parameters(model: PreTrainedModel) -> list[nn.Parameter]:
    """The parameters of a classifying head. BERT's pooler is one of them, because it is not part of the body here."""
    if head_of(model) is None:
        return []
    base: Any = model.base_model
    # T5's class for spans has no module of its own for the body.
    stacks = [base] if base is not model else [base.get_encoder(), base.get_decoder()]
    body_parameters = (pair for stack in stacks for pair in stack.named_parameters())
    body_ids = {id(each) for name, each in body_parameters if not name.startswith("pooler.")}
    return [parameter for parameter in model.parameters() if id(parameter) not in body_ids]


def left_to_right(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder with a causal mask, which is set in its configuration, so that it applies wherever the model is used.

    The model is constructed again, because transformers' modules read the mask only then. The result shares the memory
    of the weights with the model, which must not be used afterwards.
    """
    return model if _sees_earlier(model) else as_class(model, type(model), 0, is_decoder=True, use_cache=False)


def require_left_to_right(model: PreTrainedModel) -> None:
    """Raises UserError for an encoder whose tokens see later ones."""
    if not _sees_earlier(model):
        raise UserError(
            f"the tokens of this {model.config.model_type} model see later ones",
            where=str(model.name_or_path),
            hint="It was not pretrained from left to right: write the objective that it was pretrained on.",
        )


def _sees_earlier(model: PreTrainedModel) -> bool:
    return bool(getattr(model.config, "is_decoder", False))
