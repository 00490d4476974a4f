"""subgraft serve: a model on this machine, for programs and for a page to type in."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args

from subgraft.base.errors import OperationalError
from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.base.security.private_files import secret_file
from subgraft.base.security.terminal_escaping import say
from subgraft.config.settings_base import DecodingEngine
from subgraft.interfaces.api.arguments import local_model
from subgraft.interfaces.cli.arguments import MODEL_HELP, Commands, ModelName, add_languages, whole_number

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def add_to(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve", help="answer requests for translations, completions or labels on this machine, and show a page"
    )
    models = f"{MODEL_HELP}, or the output of `export --to ctranslate2` or `--to gguf`; several are compared"
    serve.add_argument("models", type=ModelName, nargs="+", metavar="MODEL", help=models)
    serve.add_argument(
        "--compare-with", type=ModelName, metavar="MODEL", help="a further model, as if it followed the others"
    )
    serve.add_argument("--port", type=whole_number(0, 65535), default=8111, help="0 for any free port (default 8111)")
    host = f"address to listen on, as 0.0.0.0 in a container; there is no TLS (default {HOST}: this machine alone)"
    serve.add_argument("--host", metavar="ADDRESS", type=_address, default=HOST, help=host)
    serve.add_argument(
        "--beam", type=whole_number(1, MAX_BEAM_SIZE), default=4, help="beam size for translations (default 4)"
    )
    add_languages(serve, "for models with language codes")
    engine = "what runs models (default: CTranslate2 if it is installed and supports them, else transformers)"
    serve.add_argument("--engine", choices=get_args(DecodingEngine), help=engine)
    token = "file for the token that requests need (default: only printed)"
    serve.add_argument("--token-file", type=Path, metavar="FILE", help=token)
    serve.set_defaults(command=serve_model)


def serve_model(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, which end it with exit code 0."""
    from subgraft.experiments.origin import origin_of
    from subgraft.interfaces.serving.application import LOCAL_NAMES, application
    from subgraft.interfaces.serving.batching import is_working
    from subgraft.interfaces.serving.writer import open_model

    names = dict.fromkeys([*arguments.models, *filter(None, [arguments.compare_with])])
    with contextlib.ExitStack() as stack, _interruptible():
        listening = stack.enter_context(_listening(arguments.host, arguments.port))
        places = {name: local_model(name) for name in names}
        models = {
            name: stack.enter_context(open_model(place, arguments.languages, arguments.beam, arguments.engine))
            for name, place in places.items()
        }
        token = secrets.token_urlsafe(32)
        if arguments.token_file is not None:
            stack.enter_context(secret_file(arguments.token_file, token))
        hosts = LOCAL_NAMES if arguments.host.is_loopback else ("*",)
        origins = {name: origin_of(place) for name, place in places.items()}
        _run(application(models, token, names=hosts, origins=origins), listening, token, arguments.token_file)
    if is_working():
        # Python would wait for the model, which may write for minutes, and nothing can interrupt it.
        sys.stdout.flush()
        os._exit(0)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the server as Ctrl+C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def _listening(host: Address, port: int) -> Iterator[socket.socket]:
    """The port, taken before a model is loaded. Raises OperationalError if it is in use."""
    family = socket.AF_INET if host.version == 4 else socket.AF_INET6
    try:
        listening = socket.create_server((str(host), port), family=family)
    except OSError as error:
        hint = "Give an address of this machine as --host, and another --port, or 0 for any that is free."
        where = f"{_in_url(host)}:{port}"
        raise OperationalError(f"cannot listen there: {error.strerror}", where=where, hint=hint) from error
    with listening:
        yield listening


def _address(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        message = f"expected an IP address such as 127.0.0.1, 0.0.0.0 or ::, found {text!r:.60}"
        raise argparse.ArgumentTypeError(message) from None


def _in_url(host: Address) -> str:
    return str(host) if host.version == 4 else f"[{host}]"


def _run(app: Starlette, listening: socket.socket, token: str, token_file: Path | None) -> None:
    from subgraft.base.security.http_server import server

    host = ipaddress.ip_address(listening.getsockname()[0])
    address = f"http://{_in_url(host)}:{listening.getsockname()[1]}/"
    say(f"serving on {address}" + ("" if token_file else f"#token={token}"))
    if token_file:
        say(f"the token is in {token_file}: open {address}#token=TOKEN")
    if not host.is_loopback:
        say("requests and the token cross the network unencrypted: put a TLS proxy in front of it")
    server(app, token).run(sockets=[listening])
