"""Licences of corpora, as a manifest declares them."""

from __future__ import annotations

from pathlib import Path

from subgraft.data.sources.catalogue import licences


def test_files_are_known_by_their_digest(tmp_path: Path) -> None:
    rows = ["file\tlines\tsha256\tlicence", f"a.en\t1\t{'a' * 64}\tCC0 1.0", f"a.de\t1\t{'b' * 64}\tCC0 1.0"]
    (tmp_path / "MANIFEST.tsv").write_text("\n".join(rows) + "\n")
    known = {"files": {"train": ["a" * 64, "b" * 64]}, "limit": {"train": 5}}
    assert licences(known, tmp_path) == ("CC0 1.0",)
    assert licences({"files": {"train": ["a" * 64, "c" * 64]}}, tmp_path) == ("CC0 1.0", "unknown")
    assert licences(known, tmp_path / "absent") == ("unknown",)
    assert licences({"mtdata": {"train": "some-id"}}, tmp_path) == ("unknown",)
    (made,) = licences({"generated": "law"}, tmp_path)
    assert made.startswith("generated")
    several = {"together": [known, {"files": {"train": ["c" * 64]}}, {"generated": "law"}]}
    assert licences(several, tmp_path) == ("CC0 1.0", "unknown", made)
