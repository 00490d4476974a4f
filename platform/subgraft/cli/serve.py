"""subgraft serve: a model on this machine, for programs and for a page to type in."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

from subgraft.cli.arguments import MODEL_HELP, language_pair, whole
from subgraft.cli.output import Commands
from subgraft.errors import OperationalError, UserError
from subgraft.printed import say
from subgraft.tracking.given import local_model

HOST = "127.0.0.1"


def add_to(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="answer requests for translations on this machine, and show a page")
    serve.add_argument("model", metavar="MODEL", help=f"{MODEL_HELP}, or what `export --to ctranslate2` wrote")
    serve.add_argument("--beside", metavar="MODEL", help="another one, as with the old vocabulary, to compare with")
    serve.add_argument("--port", type=whole(0, 65535), default=8111, help="of 127.0.0.1; 0: any (default 8111)")
    serve.add_argument("--beam", type=whole(1, 16), default=4, help="beam size (default 4)")
    serve.add_argument("--languages", type=language_pair, metavar="SOURCE-TARGET", help="of models with language codes")
    token = "where the token is written that requests need (default: printed alone)"
    serve.add_argument("--token-file", type=Path, metavar="FILE", help=token)
    serve.set_defaults(command=serve_model)


def serve_model(arguments: argparse.Namespace) -> None:
    """Until SIGTERM or SIGINT, by which it ends well."""
    from subgraft.serving.application import application
    from subgraft.serving.writer import opened

    names = dict.fromkeys([arguments.model, *filter(None, [arguments.beside])])
    with contextlib.ExitStack() as stack, _interruptible():
        listening = stack.enter_context(_listening(arguments.port))
        writers = {
            name: stack.enter_context(opened(local_model(name), arguments.languages, arguments.beam)) for name in names
        }
        token = secrets.token_urlsafe(32)
        if arguments.token_file is not None:
            stack.enter_context(_token_file(arguments.token_file, token))
        _run(application(writers, token), listening, token, arguments.token_file)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM is what Ctrl+C is: the end that was asked for."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """The port, taken before a model is loaded. Raises OperationalError where somebody else has it."""
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        hint = "Give another --port, or 0 for any that is free."
        raise OperationalError(f"cannot listen there: {error.strerror}", where=f"{HOST}:{port}", hint=hint) from error
    with listening:
        yield listening


@contextlib.contextmanager
def _token_file(path: Path, token: str) -> Iterator[None]:
    """A file that nobody else may read, as long as the token is good. Raises UserError where there is a file."""
    try:
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UserError("exists already", where=str(path), hint="Give another --token-file.") from error
    with os.fdopen(place, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _run(app: object, listening: socket.socket, token: str, token_file: Path | None) -> None:
    import uvicorn

    address = f"http://{HOST}:{listening.getsockname()[1]}/"
    say(f"serving on {address}" + ("" if token_file else f"#token={token}"))
    if token_file:
        say(f"the token is in {token_file}: open {address}#token=TOKEN")
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=10,
        limit_concurrency=512,
        h11_max_incomplete_event_size=16 * 1024,
    )
    uvicorn.Server(config).run(sockets=[listening])
