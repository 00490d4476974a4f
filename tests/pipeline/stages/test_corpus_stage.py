"""The corpus stage: of a task's languages as ever, or of all that a source names."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.runtime import Runtime
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.text.corpus import Corpus
from subgraft.orchestration.store.events import EventLog, StageContext
from subgraft.pipeline.compute.corpora import import_corpus
from subgraft.pipeline.stages.corpora import CorpusStage


def test_all_languages_that_a_source_names(tmp_path: Path) -> None:
    for code in ("sw", "zu", "xh"):
        (tmp_path / f"{code}.txt").write_text(f"{code} one\n{code} two\n", encoding="utf-8")
    source = CorpusSource.model_validate({"plain": {"folder": ".", "languages": ["sw", "zu", "xh"]}})
    resolved = resolve(source, None, tmp_path)
    recipe = CorpusStage(
        identity=resolved.identity(),
        texts={field.name: str(field.language) for field in resolved.fields},
        cleaning=Cleaning(),
        source=source,
        base=tmp_path,
    )
    assert recipe.codes == "sw, xh, zu"
    (tmp_path / "out").mkdir()
    summary = import_corpus(
        recipe, {}, tmp_path / "out", StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events"))
    )
    assert summary["sizes"] == {"train": 6}
    assert Corpus.open(tmp_path / "out").languages == ("sw", "xh", "zu")


def test_a_recipe_of_languages_alone_has_neither_texts_nor_questions(tmp_path: Path) -> None:
    languages = Languages(source="en", target="de")
    source = CorpusSource(generated="law")
    recipe = CorpusStage(identity={}, languages=languages, cleaning=Cleaning(), source=source, base=tmp_path)
    assert recipe.texts is None and recipe.questions is None
