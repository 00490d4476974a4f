"""Public corpora by their mtdata id (Gowda et al., ACL 2021, "Many-to-English Machine Translation Tools, Data,
and Pretrained Models").

mtdata runs in a separate process, because importing it configures global logging and reads its index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL
from threading import Timer

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.limits import DOWNLOAD_SECONDS
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource
from subgraft.data.text.fields import pair_fields

# -P prevents Python from importing code of the current directory.
PYTHON = (sys.executable, "-P")
_UNKNOWN, _OTHER_LANGUAGES, _SWAPPED = 3, 4, 5

_LOOK_UP = f"""
import sys
from mtdata.entry import DatasetId
from mtdata.index import INDEX
from mtdata.iso.bcp47 import BCP47Tag, bcp47

try:
    dataset = DatasetId.parse(sys.argv[1])
except Exception:
    sys.exit({_UNKNOWN})
if dataset not in INDEX:
    sys.exit({_UNKNOWN})
wanted = tuple(bcp47(code) for code in sys.argv[2:])
if len(wanted) != len(dataset.langs):
    sys.exit({_OTHER_LANGUAGES})
if len(wanted) == 1:
    sys.exit(0 if wanted[0].is_compatible(dataset.langs[0]) else {_OTHER_LANGUAGES})
compatible, swapped = BCP47Tag.check_compat_swap(wanted, dataset.langs)
sys.exit({_OTHER_LANGUAGES} if not compatible else {_SWAPPED} if swapped else 0)
"""


class Mtdata(Settings):
    """mtdata: a dataset id per split."""

    mtdata: dict[Split, str] | None = None


@dataclass(frozen=True)
class MtdataSource(SplitFilesSource):
    """Datasets of mtdata's index, whose ids carry a version: `files` has the id of each split."""

    files: Mapping[Split, str]
    languages: Languages

    on_disk = False

    def _origin(self) -> dict[str, object]:
        return {"mtdata": {split: self.files[split] for split in self.splits}}

    def paths(self, split: Split) -> tuple[Path, ...]:
        return fetch(self.files[split], self.languages)


def fetch(identifier: str, languages: Languages) -> tuple[Path, ...]:
    """Files of the source and target side (one file if both languages are the same), downloaded once.

    Raises:
        UserError: mtdata is not installed, does not know the id, or has it in other languages.
        OperationalError: The download fails.
    """
    from subgraft.base.security.downloads import cache_folder

    if find_spec("mtdata") is None:
        raise UserError("mtdata is not installed", where=identifier, hint="pip install 'subgraft[mtdata]'")
    sides = list(dict.fromkeys((languages.source, languages.target)))
    folder = cache_folder() / "mtdata" / identifier.replace(os.sep, "_") / "-".join(sides)
    if not folder.is_dir():
        swapped = _look_up(identifier, sides)
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
        try:
            partial.chmod(0o755)
            _write(identifier, [partial / side for side in (sides[::-1] if swapped else sides)])
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return tuple(folder / side for side in sides)


def _look_up(identifier: str, sides: list[str]) -> bool:
    """Whether the dataset lists its languages in the opposite order."""
    completed = subprocess.run([*PYTHON, "-c", _LOOK_UP, identifier, *sides], capture_output=True, text=True)
    if completed.returncode == _UNKNOWN:
        raise UserError("no such mtdata id", where=identifier, hint=f"Find one with: mtdata list -l {'-'.join(sides)}")
    if completed.returncode == _OTHER_LANGUAGES:
        raise UserError(f"this dataset is not in the languages {' and '.join(sides)}", where=identifier)
    if completed.returncode not in (0, _SWAPPED):
        raise OperationalError(f"mtdata failed: {_last_line(completed.stderr)}", where=identifier)
    return completed.returncode == _SWAPPED


def _write(identifier: str, paths: Sequence[Path]) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        command = [*PYTHON, "-X", "utf8", "-m", "mtdata", "echo", identifier]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
            assert process.stdout is not None
            deadline = Timer(DOWNLOAD_SECONDS.value, process.kill)
            deadline.start()
            try:
                split_columns(process.stdout, paths)
            finally:
                deadline.cancel()
        if process.returncode == -SIGKILL:
            raise OperationalError("mtdata did not finish in time", where=identifier, hint=DOWNLOAD_SECONDS.hint)
        if process.returncode != 0:
            errors.seek(0)
            hint = "Run the same command again once the network or the server is back."
            raise OperationalError(f"mtdata failed: {_last_line(errors.read())}", where=identifier, hint=hint)


def split_columns(rows: Iterable[bytes], paths: Sequence[Path]) -> None:
    """Write the first columns of tab-separated rows to one file each, a line per row."""
    outputs = [path.open("wb") for path in paths]
    try:
        for row in rows:
            columns = row.rstrip(b"\r\n").split(b"\t")
            # Further columns are metadata; a missing one leaves an empty segment, which cleaning counts and drops.
            for index, output in enumerate(outputs):
                output.write((columns[index] if index < len(columns) else b"") + b"\n")
    finally:
        for output in outputs:
            output.close()


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def _resolve(request: Request) -> ResolvedSource:
    fields = pair_fields(request.pair, two=request.pair.source != request.pair.target)
    return MtdataSource(fields, request.limit, request.settings, request.pair)


MTDATA = SourceKind(name="mtdata", fields=Mtdata, resolve=_resolve, one_text=lambda files: False)
