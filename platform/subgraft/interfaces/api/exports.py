"""Models in the form that another engine reads, as `subgraft export` writes them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from subgraft.base.errors import ArgumentError
from subgraft.interfaces.api.arguments import LanguagePair, located, one_of, pair_of, path_of
from subgraft.orchestration.store.outputs import new_directory

if TYPE_CHECKING:
    from subgraft.interfaces.api.model import Model
    from subgraft.modeling.exporting.ctranslate2 import Check
    from subgraft.modeling.exporting.gguf import GgufExport
    from subgraft.modeling.exporting.transformers import Loading

FormatName: TypeAlias = Literal["ctranslate2", "gguf", "transformers"]
# As in subgraft.modeling.exporting.ctranslate2, which takes seconds to import.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16")
# As in subgraft.modeling.exporting.gguf.
WEIGHT_TYPES = ("f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "f32")


@dataclass(frozen=True)
class Exported:
    """A written export.

    Attributes:
        out: Its directory, which `translate` and `subgraft generate` read.
        check: Of ctranslate2, how far log-probabilities differ from the model's.
        loading: Of transformers, the class that loads it, and whether that needs `trust_remote_code`.
        gguf: Of gguf, how far token ids and log-probabilities are those of the model, and what llama.cpp lacks.
    """

    out: Path
    check: Check | None = None
    loading: Loading | None = None
    gguf: GgufExport | None = None


def export(
    model: Model | Path | str,
    *,
    to: FormatName,
    out: Path | str,
    quantization: str | None = None,
    type: str | None = None,
    template: Path | str | None = None,
    languages: LanguagePair | None = None,
) -> Exported:
    """Write a model in the form that another engine reads.

    Args:
        model: One in memory, a directory, a hub id, or models:/NAME@ALIAS.
        to: The engine.
        out: An absent or empty directory.
        quantization: Of ctranslate2's weights, float32 by default.
        type: Of gguf's matrices: f16 by default, or bf16, q8_0, f32.
        template: For gguf, a GGUF of the original model, from which entries such as its licence are copied.
        languages: Of source and target, for models with language codes; by default those of the model.

    Raises:
        UserError: The engine does not support the model, or would compute something else.
    """
    one_of("to", to, get_args(FormatName))
    if quantization is not None:
        if to != "ctranslate2":
            raise ArgumentError("only ctranslate2 quantises", where="quantization", hint="Leave it out.")
        one_of("quantization", quantization, QUANTIZATIONS)
    if type is not None:
        one_of("type", type, WEIGHT_TYPES)
    for name, value in (("type", type), ("template", template)):
        if value is not None and to != "gguf":
            raise ArgumentError("only gguf has it", where=name, hint="Leave it out.")
    pair = None if languages is None else pair_of(languages)
    out = path_of("out", out)
    with new_directory(out) as staged, on_disk(model) as directory:
        if to == "transformers":
            from subgraft.modeling.exporting.transformers import export_transformers

            return Exported(out, loading=export_transformers(directory, staged, pair))
        if to == "gguf":
            from subgraft.modeling.exporting.gguf import export_gguf

            original = None if template is None else path_of("template", template)
            return Exported(out, gguf=export_gguf(directory, staged, type or "f16", original))
        from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2

        return Exported(out, check=export_ctranslate2(directory, staged, quantization or "float32", pair))


@contextmanager
def on_disk(model: Model | Path | str) -> Iterator[Path | str]:
    """The model's directory or hub id; for a model in memory, a temporary directory."""
    if isinstance(model, str | Path):
        yield located(model)
        return
    from subgraft.interfaces.api.model import Model

    if not isinstance(model, Model):
        located(model)  # refuses it
    with tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        model.write(Path(folder))
        yield Path(folder)
