"""The command line. Exit codes: 0; 1 for disk, network or process failures (run again); 2 for a user's mistake."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from subgraft import __version__
from subgraft.base.errors import ArgumentError, LossWarning, SubgraftError, Terminated
from subgraft.base.security.redaction import redact
from subgraft.base.security.terminal_escaping import name_stream_in_errors, say
from subgraft.interfaces.cli.arguments import ModelName, Parser
from subgraft.orchestration.store.disk import full_disk, is_full_disk

# The modules of this package with their commands. One is imported when its command is typed: all take half a second.
GROUPS: Mapping[str, Sequence[str]] = {
    "experiments": ("run", "plan", "compare", "report", "tracking", "search", "schema"),
    "human_evaluation": ("judge",),
    "fit": ("fit", "advise"),
    "corpora": ("corpora",),
    "vocabularies": ("vocab",),
    "transfers": ("generator", "similar", "embed", "assemble", "transfer"),
    "generate": ("generate",),
    "evaluate": ("evaluate",),
    "predict": ("predict",),
    "exports": ("convert", "export", "push"),
    "serve": ("serve",),
    "model_registry": ("models",),
    "store": ("store",),
    "example": ("example",),
    "doctor": ("doctor", "completion"),
}
# The commands as `subgraft --help` lists them.
SECTIONS: Mapping[str, Sequence[str]] = {
    "start here": ("example", "fit", "advise", "generate", "serve"),
    "experiments": ("run", "plan", "compare", "report", "tracking", "search", "judge", "corpora", "schema"),
    "vocabularies and embeddings": ("vocab", "transfer", "similar", "generator", "embed", "assemble"),
    "models": ("evaluate", "predict", "convert", "export", "push", "models"),
    "this machine": ("doctor", "store", "completion"),
}


class CommandParser(Parser):
    """Lists its commands by sections."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        commands: Any = next(each for each in self._actions if each.nargs == argparse.PARSER)
        by_name = {command.dest: command for command in commands._get_subactions()}
        for title, names in SECTIONS.items():
            formatter.start_section(title)
            formatter.add_arguments([by_name[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([each for each in self._actions if each is not commands])
        formatter.end_section()
        formatter.add_text(
            "`subgraft COMMAND --help` shows a command's arguments. MODEL and --model MODEL are the same."
        )
        return formatter.format_help()


def parser(command: str = "") -> Parser:
    """The parser of all commands, or of the module that has this one."""
    top = CommandParser(prog="subgraft", description="Fit pretrained models with their task's vocabulary.")
    top.add_argument("--version", action="version", version=f"subgraft {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for group in [name for name, names in GROUPS.items() if command in names] or GROUPS:
        import_module(f"{__name__}.{group}").add_to(commands)
    return top


@contextmanager
def _losses_as_lines() -> Iterator[None]:
    """Print each LossWarning as a line of its own, without a place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", LossWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, LossWarning):
                say(f"warning: {message}", to=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _require_models(parsed: argparse.Namespace) -> None:
    """Raise UserError or OperationalError for the first model that is named and is nowhere."""
    for value in vars(parsed).values():
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, ModelName) and not Path(name).exists():
                from subgraft.modeling.hub import require_on_hub

                require_on_hub(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the console script's exit code."""
    gc.set_threshold(50_000)  # the default takes a tenth of the time in which torch and transformers are imported
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as for the workers of a run; read when torch is loaded
    parsed = argparse.Namespace()
    try:
        words = sys.argv[1:] if arguments is None else arguments
        parsed = parser(*words[:1]).parse(words)
        _require_models(parsed)
        with _losses_as_lines():
            code: int | None = parsed.command(parsed)
        with name_stream_in_errors(sys.stdout):
            sys.stdout.flush()  # here a full disk, or a reader that has exited, can still be reported
        return code or 0
    except SubgraftError as raised:
        error = raised.as_options(vars(parsed)) if isinstance(raised, ArgumentError) else raised
        say(f"subgraft: {error}", to=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        again = "; the same command continues" if getattr(parsed, "resumes", False) else ""
        say(f"subgraft: stopped{again}", to=sys.stderr)
        return stop.exit_code if isinstance(stop, Terminated) else 130
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: not an error, but the stream must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """Report an environment failure in one line, a bug with its traceback without secrets; returns the exit code."""
    if is_full_disk(error):
        say(f"subgraft: {full_disk(error)}", to=sys.stderr)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        say(redact(f"subgraft: {where}{error.strerror or error}"), to=sys.stderr)
    else:
        say(redact("".join(traceback.format_exception(error))), to=sys.stderr)
    return 1
