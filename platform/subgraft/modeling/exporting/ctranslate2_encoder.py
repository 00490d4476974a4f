# mypy: allow-untyped-calls
"""Export of models with classifying heads to CTranslate2, which runs their encoders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Family, family_of
from subgraft.modeling.families.heads import kind_of_class
from subgraft.modeling.inference.ctranslate2_directory import SETTINGS, ExportedModel
from subgraft.modeling.inference.ctranslate2_encoder import HEAD, load_exported_head

# The size of the comparison: rows, and tokens in each.
_ROWS, _LENGTH = 8, 12


def export_encoder(bundle: Bundle, exported: ExportedModel) -> Tensor:
    """Write all files except the tokenizers' to the exported model's empty directory. Consumes the model.

    Returns:
        The absolute differences between the head's outputs for random tokens and the model's [n].

    Raises:
        UserError: CTranslate2 does not support the encoder.
    """
    model, directory = bundle.model, exported.directory
    inputs = _sample(bundle)
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


def _sample(bundle: Bundle) -> dict[str, Tensor]:
    """Rows of random tokens, the second half of them shorter."""
    random = torch.Generator().manual_seed(0)
    ordinary = torch.tensor(bundle.encoder.ordinary_ids.tolist())
    ids = ordinary[torch.randint(len(ordinary), (_ROWS, _LENGTH), generator=random)]
    mask = torch.ones_like(ids)
    mask[_ROWS // 2 :, _LENGTH // 2 :] = 0
    return {"input_ids": torch.where(mask.bool(), ids, bundle.padding[0]), "attention_mask": mask}


@torch.inference_mode()
def _outputs(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    """The head's outputs of each row, or of its tokens that are not padding."""
    kind = kind_of_class(type(model).__name__)
    outputs_of_model = model(**({name: each[:, None] for name, each in inputs.items()} if kind == "choice" else inputs))
    logits = (
        torch.stack([outputs_of_model.start_logits, outputs_of_model.end_logits], dim=-1)
        if kind == "span"
        else outputs_of_model.logits
    )
    outputs: Tensor = logits[inputs["attention_mask"].bool()] if kind in ("span", "tokens") else logits
    return outputs
