"""The folder of a fit: its files, the fit it belongs to, and atomic writing."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.json_io import object_in
from subgraft.base.unfinished import PREFIX
from subgraft.orchestration.store.disk import space_needed

IDENTITY, CONFIGURATION, TEXT, MODEL, REPORT = "fit.json", "fit.yaml", "text", "model", "report"


@dataclass(frozen=True)
class Folder:
    """The output folder `out`: absent, empty, or of the same fit, finished or not."""

    out: Path

    @property
    def configuration(self) -> Path:
        return self.out / CONFIGURATION

    @property
    def model(self) -> Path:
        return self.out / MODEL

    @property
    def report(self) -> Path:
        return self.out / REPORT

    @property
    def identity(self) -> dict[str, object]:
        """What its fit was called with; empty if there is none."""
        return object_in(self.out / IDENTITY)

    def require(self, identity: Mapping[str, object]) -> None:
        """Raises UserError if the folder has other contents, such as another fit. Writes nothing."""
        if self.out.exists() and not self.out.is_dir():
            raise UserError("a folder was expected, this is a file", where=str(self.out), hint="Give another folder.")
        if not self.out.exists() or all(path.name.startswith(PREFIX) for path in self.out.iterdir()):
            return
        earlier = self.identity
        if not earlier:
            hint = "Give an absent or empty folder, or that of the same fit."
            raise UserError("is not empty, and no fit of a model", where=str(self.out), hint=hint)
        if differing := [name for name, value in identity.items() if earlier.get(name) != value]:
            message = f"holds another fit, with another {' and '.join(differing)}"
            raise UserError(message, where=str(self.out), hint="Give another folder, or what it was fitted with.")

    def claim(self, identity: Mapping[str, object]) -> None:
        """Create the folder, and mark it as this fit's."""
        self.out.mkdir(parents=True, exist_ok=True)
        for leftover in self.out.glob(f"{PREFIX}*"):  # of a run that was killed
            shutil.rmtree(leftover)
        text = json.dumps(identity, indent=1, ensure_ascii=False) + "\n"
        self._write(IDENTITY, lambda path: path.write_text(text, encoding="utf-8"))

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """At a UserError, removes the files that are new: another command can then use the folder."""
        present = self.out.exists()
        used = (self.out / IDENTITY).exists()
        try:
            yield
        except UserError:
            if not used:
                for name in (IDENTITY, CONFIGURATION):
                    (self.out / name).unlink(missing_ok=True)
                shutil.rmtree(self.out / TEXT, ignore_errors=True)
            if not present and self.out.exists() and not any(self.out.iterdir()):
                self.out.rmdir()
            raise

    def write_configuration(self, text: str) -> None:
        self._write(CONFIGURATION, lambda path: path.write_text(text, encoding="utf-8"))

    def write_lines(self, files: Mapping[str, Iterable[str]]) -> None:
        """Write the files of the text, by name."""

        def write(folder: Path) -> None:
            folder.mkdir()
            for name, lines in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

        self._write(TEXT, write)

    def copy(self, source: Path, name: str) -> None:
        """Copy a folder of the store, replacing that of an earlier run."""
        self._write(name, lambda path: shutil.copytree(source, path))

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        with self._replacing(name) as path:
            write(path)

    @contextmanager
    def _replacing(self, name: str) -> Iterator[Path]:
        """A temporary path that is renamed to this name at the end, which then replaces an earlier file or folder."""
        with space_needed(self.out), tempfile.TemporaryDirectory(prefix=PREFIX, dir=self.out) as temporary:
            staged, final = Path(temporary) / name, self.out / name
            yield staged
            if final.is_dir():
                final.rename(Path(temporary) / "before")
            staged.rename(final)
