"""An artifact is whole or absent."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from subgraft.base import digest_cache
from subgraft.base.errors import OperationalError, UserError
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import RECORD, Record
from subgraft.orchestration.store.step import Step, sha256_of
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


class ToyStage(Stage):
    content: str = "hello"
    seed: int = 7


CORPUS = ToyKind("corpus", 3, nothing)
VOCABULARY = ToyKind("vocabulary", 1, nothing)
STEP = Step(CORPUS.of(ToyStage()), "everyday")


def write(out: Path) -> dict[str, Json]:
    (out / "text.txt").write_text("hello\n")
    (out / "inner").mkdir()
    (out / "inner" / "empty").touch()
    return {"lines": 1, "languages": ("en", "de")}


@pytest.fixture
def said() -> list[str]:
    """What stores say, line by line."""
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Store:
    return Store(tmp_path / "home", said.append)


@pytest.fixture
def later(store: Store, said: list[str]) -> Store:
    """The same home as another process sees it: nothing verified yet."""
    return Store(store.home, said.append)


def test_publish_then_find(store: Store, later: Store) -> None:
    assert store.find(STEP) is None
    provenance = Provenance(("subgraft", "run"), "0" * 40, {"torch": "2"}, "cpu")
    published = store.publish(STEP, write, provenance)
    loaded = later.find(STEP)
    assert loaded is not None and loaded == published
    assert (loaded.stage, loaded.revision, loaded.name, loaded.seeds) == ("corpus", 3, "everyday", {"seed": 7})
    assert loaded.summary == {"lines": 1, "languages": ["en", "de"]}
    assert [(entry.path, entry.size) for entry in loaded.files] == [("inner/empty", 0), ("text.txt", 6)]
    assert loaded.provenance == provenance
    assert (store.artifact(STEP) / "text.txt").read_text() == "hello\n"
    assert not list((store.home / "store" / ".partial").iterdir())


def test_a_record_names_its_inputs_by_content(store: Store) -> None:
    corpus = store.publish(STEP, write)
    below = Step(VOCABULARY.of(ToyStage()), "vocabulary", {"corpus": STEP})
    record = store.publish(below, write)
    assert record.inputs == {"corpus": {"fingerprint": STEP.fingerprint, "digest": corpus.digest}}


def test_a_record_does_not_name_the_machine(store: Store) -> None:
    store.publish(STEP, write)
    assert os.uname().nodename not in (store.path(STEP) / RECORD).read_text()


def test_an_absent_artifact_cannot_be_used(store: Store) -> None:
    with pytest.raises(OperationalError, match="everyday has not been made yet"):
        store.artifact(STEP)


def test_what_fails_leaves_nothing(store: Store) -> None:
    def fail(out: Path) -> dict[str, Json]:
        write(out)
        raise ZeroDivisionError

    def link(out: Path) -> dict[str, Json]:
        (out / "link").symlink_to("/etc/hostname")
        return {}

    with pytest.raises(ZeroDivisionError):
        store.publish(STEP, fail)
    with pytest.raises(ValueError, match="neither a file nor a directory"):
        store.publish(STEP, link)
    with pytest.raises(ValueError):
        store.publish(STEP, lambda out: {"loss": float("inf")})
    assert store.find(STEP) is None
    assert not list((store.home / "store" / ".partial").iterdir())


def test_what_the_dead_left_is_swept_at_once_and_the_living_are_left_alone(store: Store) -> None:
    partial = store.home / "store" / ".partial"
    for name in ("just-made", "half-written"):
        (partial / name).mkdir(parents=True)
    (partial / "half-written" / "text.txt").write_text("hel")
    (partial / "half-written.writer").write_text("")
    (partial / "claimed.writer").write_text("")

    def write_while_another_sweeps(out: Path) -> dict[str, Json]:
        Store(store.home).sweep()
        assert [path.name for path in partial.iterdir() if path.is_dir()] == [out.name]
        return write(out)

    store.publish(STEP, write_while_another_sweeps)
    assert not list(partial.iterdir())
    assert store.find(STEP)


def flip_a_bit(artifact: Path) -> None:
    path = artifact / "text.txt"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate_the_record(artifact: Path) -> None:
    os.truncate(artifact / RECORD, (artifact / RECORD).stat().st_size // 2)


def change_the_summary(artifact: Path) -> None:
    record = artifact / RECORD
    record.write_text(record.read_text().replace('"lines": 1', '"lines": 2'))


def put_garbage_in_the_record(artifact: Path) -> None:
    (artifact / RECORD).write_bytes(b"\xff\xfe\x00")


def take_another_steps_record(artifact: Path) -> None:
    record = Record.from_json((artifact / RECORD).read_text())
    (artifact / RECORD).write_text(replace(record, fingerprint="0" * 64).to_json())


def nest_the_record(artifact: Path) -> None:
    """Its digest is right, and a recursive reader would exceed its stack."""
    content = json.loads((artifact / RECORD).read_text())
    del content["record_sha256"]
    for _ in range(400):
        content["summary"] = {"in": content["summary"]}
    content["record_sha256"] = sha256_of(content)
    (artifact / RECORD).write_text(json.dumps(content))


def bury_the_record(artifact: Path) -> None:
    (artifact / RECORD).write_text('{"recipe": ' * 100_000)


def make_the_record_a_list(artifact: Path) -> None:
    (artifact / RECORD).write_text("[1]")


def give_the_record_other_types(artifact: Path) -> None:
    content = json.loads((artifact / RECORD).read_text())
    del content["record_sha256"]
    content["finished"] = [1]
    content["record_sha256"] = sha256_of(content)
    (artifact / RECORD).write_text(json.dumps(content))


def put_a_link_in_its_place(artifact: Path) -> None:
    (artifact / "text.txt").rename(artifact.parent.parent / "elsewhere")
    (artifact / "text.txt").symlink_to(artifact.parent.parent / "elsewhere")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "text.txt is not as recorded": flip_a_bit,
    "text.txt is neither a file nor a directory": put_a_link_in_its_place,
    "record.json is incomplete": truncate_the_record,
    "its own digest does not match": change_the_summary,
    "utf-8": put_garbage_in_the_record,
    "the record is of another step": take_another_steps_record,
    "nested too deeply": nest_the_record,
    "nested too deeply ": bury_the_record,
    "not a JSON object": make_the_record_a_list,
    "finished": give_the_record_other_types,
    "record.json is missing": lambda artifact: (artifact / RECORD).unlink(),
    "inner/empty is not as recorded": lambda artifact: (artifact / "inner" / "empty").unlink(),
    "extra is not as recorded": lambda artifact: (artifact / "extra").touch(),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_artifact_is_quarantined_and_made_again(
    store: Store, later: Store, said: list[str], message: str
) -> None:
    store.publish(STEP, write)
    DAMAGE[message](store.path(STEP))
    assert later.find(STEP) is None
    (line,) = said
    assert message.strip() in line and "moved to" in line and "\n" not in line
    assert len(list((store.home / "quarantine").iterdir())) == 1
    later.publish(STEP, write)
    assert Store(store.home).find(STEP) is not None


def test_a_writer_that_meets_a_damaged_artifact_replaces_it(store: Store, later: Store) -> None:
    store.publish(STEP, write)
    flip_a_bit(store.path(STEP))
    later.publish(STEP, write)
    assert Store(store.home).find(STEP) is not None
    assert len(list((store.home / "quarantine").iterdir())) == 1


def test_a_process_that_has_verified_notices_a_later_change(store: Store) -> None:
    store.publish(STEP, write)
    assert store.find(STEP) is not None
    (store.path(STEP) / "text.txt").write_text("hullo\n")
    assert store.find(STEP) is None


def test_the_later_writer_discards_its_own(store: Store, later: Store) -> None:
    first = store.publish(STEP, write)

    def write_otherwise(out: Path) -> dict[str, Json]:
        (out / "text.txt").write_text("other\n")
        return {}

    assert later.publish(STEP, write_otherwise) == first
    assert (store.artifact(STEP) / "text.txt").read_text() == "hello\n"


def test_records_of_a_stage_skip_what_cannot_be_read(store: Store) -> None:
    other = Step(CORPUS.of(ToyStage(content="other")), "law")
    store.publish(STEP, write)
    store.publish(other, write)
    truncate_the_record(store.path(other))
    assert [record.name for record in store.records("corpus")] == ["everyday"]
    assert not list(store.records("absent"))


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "elsewhere"))
    assert default_home() == tmp_path / "elsewhere"
    monkeypatch.delenv("SUBGRAFT_HOME")
    monkeypatch.chdir(tmp_path)
    assert default_home() == tmp_path / ".subgraft"


@pytest.mark.parametrize("named", [None, "", "store"])
def test_a_job_keeps_no_store_in_its_copy_of_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.delenv("SUBGRAFT_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("SUBGRAFT_HOME", named)
    with pytest.raises(UserError, match="SUBGRAFT_HOME: the store would be in the temporary working directory"):
        default_home()
    monkeypatch.setenv("SUBGRAFT_HOME", "/shared/subgraft")
    assert default_home() == Path("/shared/subgraft")


def test_a_moved_home_is_as_good(store: Store) -> None:
    store.publish(STEP, write)
    moved = shutil.move(store.home, store.home.with_name("moved"))
    assert Store(Path(moved)).find(STEP) is not None


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of all files are noted at once."""
    monkeypatch.setattr(digest_cache, "MIN_CACHED_BYTES", 1)
    monkeypatch.setattr(digest_cache, "SETTLED_SECONDS", 0.01)


@pytest.mark.usefixtures("noted")
@pytest.mark.parametrize("problem", DAMAGE)
def test_damage_is_found_though_digests_were_noted(problem: str, store: Store, later: Store, said: list[str]) -> None:
    store.publish(STEP, write)
    time.sleep(0.05)
    assert Store(store.home).find(STEP)
    assert list((store.home / "digests").iterdir())
    DAMAGE[problem](store.path(STEP))
    assert later.find(STEP) is None
    (line,) = said
    assert problem.strip() in line


@pytest.mark.usefixtures("noted")
def test_damage_that_the_file_system_hides_is_found_on_request(store: Store, later: Store) -> None:
    """A disk that returns other bytes: here a note of the bytes that were, with the times that are."""
    store.publish(STEP, write)
    time.sleep(0.05)
    assert Store(store.home).find(STEP)
    (note,) = (store.home / "digests").iterdir()
    fields = json.loads(note.read_text())
    flip_a_bit(store.path(STEP))
    fields["state"] = digest_cache._file_state(store.path(STEP) / "text.txt")
    note.write_text(json.dumps({**fields, "check": digest_cache._checksum(fields)}))
    assert Store(store.home).find(STEP), "by what the file system says it is as it was"
    later.forget_digests()
    assert later.find(STEP) is None


@pytest.mark.usefixtures("noted")
def test_a_wrong_note_condemns_nothing(store: Store, later: Store, said: list[str]) -> None:
    store.publish(STEP, write)
    time.sleep(0.05)
    Store(store.home).find(STEP)
    (note,) = (store.home / "digests").iterdir()
    fields = {**json.loads(note.read_text()), "sha256": "0" * 64}
    note.write_text(json.dumps({**fields, "check": digest_cache._checksum(fields)}))
    assert later.find(STEP) and not said
