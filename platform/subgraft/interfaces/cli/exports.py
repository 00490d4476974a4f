"""subgraft convert, export, push: models as safetensors, for other engines, and on the Hugging Face hub."""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import subgraft
from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.api.arguments import local_model
from subgraft.interfaces.api.exports import QUANTIZATIONS, WEIGHT_TYPES, FormatName
from subgraft.interfaces.cli.arguments import MODEL_HELP, Commands, ModelName, add_languages, add_out, selected
from subgraft.orchestration.store.outputs import new_directory
from subgraft.orchestration.tracking.server import recording_server

if TYPE_CHECKING:
    from subgraft.modeling.exporting.ctranslate2 import Check
    from subgraft.modeling.exporting.gguf import GgufExport
    from subgraft.modeling.exporting.publishing import Publication
    from subgraft.modeling.exporting.transformers import Loading


def add_to(commands: Commands) -> None:
    _add_conversion(commands)
    export = commands.add_parser("export", help="convert a model for another engine")
    export.add_argument("model", type=ModelName, metavar="MODEL", help=MODEL_HELP)
    export.add_argument("--to", required=True, choices=get_args(FormatName), help="the engine")
    export.add_argument(
        "--quantization", choices=QUANTIZATIONS, help="for ctranslate2: type of the weights (default: float32)"
    )
    export.add_argument("--type", choices=WEIGHT_TYPES, help="for gguf: type of the matrices (default: f16)")
    copied = "for gguf: a GGUF of the original model, whose other entries, such as its licence, are copied"
    export.add_argument("--template", type=Path, metavar="FILE", help=copied)
    add_languages(export, "for models with language codes, as in en-fr")
    add_out(export)
    export.set_defaults(command=export_model)
    _add_push(commands)


def export_model(arguments: argparse.Namespace) -> None:
    exported = subgraft.export(
        arguments.model, **selected(arguments, "to", "out", "quantization", "type", "template", "languages")
    )
    if exported.check is not None:
        _say_check(exported.check, exported.out, arguments.quantization or "float32")
    if exported.loading is not None:
        _say_loading(exported.loading, exported.out)
    if exported.gguf is not None:
        _say_gguf(exported.gguf, exported.out, arguments.type or "f16")


def _say_gguf(exported: GgufExport, out: Path, weights: str) -> None:
    from subgraft.modeling.exporting.gguf import MODELFILE
    from subgraft.modeling.gguf_files import FILE

    say(f"written to {out / FILE}, in {weights}; `ollama create NAME -f {out / MODELFILE}` imports it")
    if (compared := exported.comparison) is None:
        say("[warning]  not compared with the model: llama.cpp is not installed (pip install 'subgraft[llamacpp]')")
    else:
        say(f"llama.cpp reads {compared.same:,} of {compared.texts:,} texts as the same token ids")
        say(f"log-probabilities differ by {compared.mean:.1e} on average, {compared.largest:.1e} at most")
    for limit in exported.limits:
        say(f"[note]  in llama.cpp {limit}")


def _say_check(check: Check, out: Path, quantization: str) -> None:
    from subgraft.modeling.exporting.ctranslate2 import NOTEWORTHY
    from subgraft.modeling.inference.ctranslate2_encoder import HEAD

    headed = (out / HEAD).is_file()
    use, compared = (
        f"predict {out}" if headed else f"generate --model {out}",
        "outputs" if headed else "log-probabilities",
    )
    say(f"written to {out}, in {quantization}; `subgraft {use}` uses it")
    say(f"{compared} differ from the model's by {check.mean:.1e} on average, {check.largest:.1e} at most")
    if check.mean > NOTEWORTHY:
        say(
            f"[warning]  more than {NOTEWORTHY} on average: outputs may be worse. Compare scores of both by "
            f"`subgraft evaluate --model`, or export with --quantization float16 or float32"
        )


def _say_loading(loading: Loading, out: Path) -> None:
    say(f"written to {out}: AutoTokenizer and {loading.model_class} load it")
    if loading.prompt:
        say(f"every text begins with the code of its target language: {loading.prompt}")
    if loading.model_code or loading.tokenizer_code:
        say("with trust_remote_code=True: transformers has no such class, so its code is in the directory")


_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def _add_push(commands: Commands) -> None:
    push = commands.add_parser("push", help="publish a model on the Hugging Face hub, with a model card")
    push.add_argument("model", type=ModelName, metavar="MODEL", help=MODEL_HELP)
    push.add_argument("name", metavar="OWNER/NAME", help="the repository on the hub, created if it does not exist")
    push.add_argument("--dry-run", action="store_true", help="write the folder to --out, and upload nothing")
    push.add_argument("--out", type=Path, metavar="DIR", help="for a dry run; absent or empty")
    push.add_argument("--private", action="store_true", help="create a private repository; refuse a public one")
    push.add_argument(
        "--licence", type=_licence, metavar="ID", help="the hub's name of it, as apache-2.0 (default: unknown)"
    )
    base = "the published model that it was made from (default: from the registry)"
    push.add_argument("--base-model", metavar="ID", help=base)
    add_languages(push, "its languages (default: as its files say)")
    push.set_defaults(command=push_model)


def _licence(licence: str) -> str:
    if not _LICENCE.fullmatch(licence):
        raise argparse.ArgumentTypeError(f"not a licence id: {licence!r}; as in apache-2.0, mit, cc-by-4.0, other")
    return licence


def push_model(arguments: argparse.Namespace) -> None:
    from subgraft.modeling.exporting.publishing import require_name, require_token, upload

    if arguments.dry_run != (arguments.out is not None):
        hint = "A dry run writes the folder to --out; without --dry-run it is sent, and no copy remains here."
        raise UserError("--dry-run and --out need each other", where="push", hint=hint)
    require_name(arguments.name)
    if not arguments.dry_run:
        token = require_token()
        with tempfile.TemporaryDirectory(prefix="subgraft-push-") as place:
            _write(arguments, Path(place))
            say(f"sent: {upload(Path(place), arguments.name, token, private=arguments.private)}")
        return
    with new_directory(arguments.out) as folder:
        _write(arguments, folder)
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    kind = "private" if arguments.private else "public, unless it is there and is private"
    say(f"written to {arguments.out}; nothing was sent. Without --dry-run it would be the repository")
    say(f"{arguments.name} ({kind}), {len(files)} files, {sum(files.values()):,} bytes:")
    for name, size in files.items():
        say(f"  {name}  {size:,}")


def _write(arguments: argparse.Namespace, folder: Path) -> None:
    """The model and its card."""
    from subgraft.modeling.exporting.publishing import model_card
    from subgraft.modeling.exporting.transformers import export_transformers
    from subgraft.orchestration.tracking.model_registry import CARD

    model = local_model(arguments.model)
    publication = _publication(arguments, model)
    loading = export_transformers(model, folder, publication.languages)
    (folder / CARD).write_text(model_card(publication, loading), encoding="utf-8")


def _publication(arguments: argparse.Namespace, model: str) -> Publication:
    """The facts about the model: from the arguments, its files, and the registry if it is registered."""
    from subgraft.modeling.exporting.publishing import Publication
    from subgraft.modeling.hub import require_model
    from subgraft.modeling.tokenizers import languages_at
    from subgraft.orchestration.tracking.model_registry import CARD, SCHEME, Registry

    directory = require_model(model)
    languages = languages_at(directory, arguments.languages)
    known = Publication(arguments.name, arguments.licence, arguments.base_model, languages)
    if not arguments.model.startswith(SCHEME):
        return known
    with recording_server() as server:
        tags = Registry(server).version(arguments.model).tags
    card = directory / CARD
    return replace(known, tags=tags, card=card.read_text(encoding="utf-8") if card.is_file() else "")


SHOWN = 3


def _add_conversion(commands: Commands) -> None:
    convert = commands.add_parser(
        "convert", help="convert a pytorch_model.bin or a GGUF to safetensors, or merge a LoRA adapter into its base"
    )
    convert.add_argument(
        "model", type=ModelName, metavar="MODEL", help="a directory, a hub id or a GGUF file; with --base a directory"
    )
    convert.add_argument(
        "--base", type=ModelName, metavar="MODEL", help="for a LoRA adapter: the base (default: the one it names)"
    )
    convert.add_argument("--revision", metavar="COMMIT", help="commit of the hub's repository (default: the newest)")
    add_out(convert)
    convert.set_defaults(command=convert_model)


def _merge_adapter(arguments: argparse.Namespace) -> None:
    from subgraft.modeling.hub import HUB_FILES, adapter_base, require_model, with_revision
    from subgraft.training.adapters import merge_adapter

    if arguments.base:
        base = require_model(with_revision(local_model(arguments.base), arguments.revision))
    else:
        base = adapter_base(Path(arguments.model), files=HUB_FILES) or Path(arguments.model)
    with new_directory(arguments.out) as out:
        matrices = merge_adapter(Path(arguments.model), base, out)
    say(f"{matrices} adapted matrices merged; the model is in {arguments.out}")


def convert_model(arguments: argparse.Namespace) -> None:
    from subgraft.base.security.gguf_header import is_gguf
    from subgraft.modeling.conversion import convert
    from subgraft.modeling.gguf_files import convert_gguf
    from subgraft.modeling.hub import TORCH_FILES, is_adapter, resolve_model, with_revision

    if is_gguf(arguments.model):
        if arguments.base or arguments.revision:
            raise UserError("a GGUF has neither a base nor revisions", where="convert", hint="Leave them out.")
        with new_directory(arguments.out) as out:
            parameters = convert_gguf(Path(arguments.model), out)
        say(f"{parameters:,} parameters written to {arguments.out} as safetensors, in fp32")
        return
    if arguments.base or is_adapter(Path(arguments.model)):
        _merge_adapter(arguments)
        return

    model = with_revision(arguments.model, arguments.revision)
    with new_directory(arguments.out) as out:
        converted = convert(resolve_model(model, TORCH_FILES), out)
    say(f"{converted.parameters:,} parameters written to {arguments.out} as safetensors")
    if converted.left_out:
        names = ", ".join(converted.left_out[:SHOWN]) + (", …" if len(converted.left_out) > SHOWN else "")
        say(
            f"omitted, because this model has no parameters of these names: {len(converted.left_out)} tensors ({names})"
        )
