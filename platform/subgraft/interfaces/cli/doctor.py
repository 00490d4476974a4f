"""subgraft doctor checks that this machine has everything a run needs; subgraft completion completes in the shell."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base.security.terminal_escaping import printable, write
from subgraft.interfaces.cli.arguments import Commands, add_json, console, print_json
from subgraft.orchestration.store.home import default_home

if TYPE_CHECKING:
    from rich.text import Text

LIBRARIES = ("torch", "transformers", "tokenizers", "sentencepiece", "gensim", "ray", "mlflow", "sacrebleu")
OPTIONAL = ("deepspeed", "mtdata")
MIN_FREE_GIGABYTES = 5
SHELLS = ("bash", "zsh", "tcsh", "fish")
SOURCED = "in ~/.bashrc: source <(subgraft completion bash); in config.fish: subgraft completion fish | source"


def add_to(commands: Commands) -> None:
    doctor = commands.add_parser("doctor", help="check this machine: libraries, devices, disk, corpora")
    sent = "a runtime environment file: also check the files that `ray job submit` would upload with it"
    doctor.add_argument("--upload", type=Path, metavar="FILE", help=sent)
    add_json(doctor)
    doctor.set_defaults(command=examine)
    completion = commands.add_parser("completion", help="print the completion of commands and options for a shell")
    completion.add_argument("shell", choices=SHELLS, help=SOURCED)
    completion.set_defaults(command=complete)


def examine(arguments: argparse.Namespace) -> int:
    """Print one line per finding; returns 1 if something that a run needs is missing. UserError for a large upload."""
    findings = [*_libraries(), _devices(), _store(), _corpora()]
    if arguments.upload:
        findings.append(_upload(arguments.upload))
    if arguments.json:
        print_json(findings=[{"ok": ok, "text": line} for ok, line in findings])
    else:
        for ok, line in findings:
            console().print(_finding(ok, line))
    return 0 if all(ok for ok, _ in findings) else 1


def complete(arguments: argparse.Namespace) -> None:
    """Print a completion script for a shell."""
    import shtab

    from subgraft.interfaces.cli import parser

    if arguments.shell == "fish":  # for which shtab writes none
        write("\n".join([_FISH_TESTS, *_fish_lines(parser())]))
    else:
        write(shtab.complete(parser(), shell=arguments.shell))


# Whether the line has this command, and whether the next word is that of its subcommand.
_FISH_TESTS = """\
function __subgraft_in
    set -l words (commandline -opc)
    set -l last (math (count $argv) + 1)
    test "$words[2..$last]" = "$argv"
end
function __subgraft_at
    set -l words (commandline -opc)
    set -e words[1]
    test "$words" = "$argv"
end"""


def _fish_lines(parser: argparse.ArgumentParser) -> Iterator[str]:
    path = parser.prog.partition(" ")[2]
    for action in parser._actions:
        about = "" if action.help is None else parser._get_formatter()._expand_help(action)
        if isinstance(action.choices, Mapping):  # parsers by name
            commands: Any = action
            for command in commands._get_subactions():
                yield _complete("at", path, f"-f -a {command.dest}", command.help or "")
                yield from _fish_lines(action.choices[command.dest])
        elif action.option_strings and about != argparse.SUPPRESS:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings]
            if action.choices is not None:
                names.append(f"-x -a {_quoted(' '.join(map(str, action.choices)))}")
            elif action.nargs != 0:
                names.append("-r")  # a value follows, maybe a file
            yield _complete("in" if path else "at", path, " ".join(names), about)
        elif action.choices is not None:
            yield _complete("at", path, f"-f -a {_quoted(' '.join(map(str, action.choices)))}", about)


def _complete(test: str, path: str, completed: str, about: str) -> str:
    return f"complete -c subgraft -n {_quoted(f'__subgraft_{test} {path}'.strip())} {completed} -d {_quoted(about)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _finding(ok: bool, line: str) -> Text:
    from rich.text import Text

    mark = ("ok       ", "green") if ok else ("missing  ", "red")
    return Text.assemble(mark, printable(line))


def _libraries() -> list[tuple[bool, str]]:
    findings = []
    for name in (*LIBRARIES, *OPTIONAL):
        try:
            findings.append((True, f"{name} {metadata.version(name)}"))
        except metadata.PackageNotFoundError:
            findings.append((name in OPTIONAL, f"{name} is not installed{' (optional)' if name in OPTIONAL else ''}"))
    return findings


def _devices() -> tuple[bool, str]:
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return True, f"GPU: {names}"
    return True, f"no GPU; {os.cpu_count()} CPU cores"


def _store() -> tuple[bool, str]:
    home = default_home().absolute()
    existing = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(existing).free / 1e9
    writable = os.access(existing, os.W_OK)
    note = "" if writable else ", not writable"
    return writable and free >= MIN_FREE_GIGABYTES, f"store {home}: {free:.0f} GB free{note}"


def _corpora() -> tuple[bool, str]:
    folder = os.environ.get("SUBGRAFT_DATA")
    if folder is None:
        return True, "SUBGRAFT_DATA is not set: only the built-in corpora and files of your own"
    return Path(folder).is_dir(), f"SUBGRAFT_DATA {folder}"


def _upload(runtime_env: Path) -> tuple[bool, str]:
    from subgraft.orchestration.execution.upload import pack_working_directory, require_small

    upload = pack_working_directory(runtime_env)
    require_small(upload, runtime_env)
    return True, f"upload of a job: {upload.files} files, {upload.bytes / 1e6:.1f} MB"
