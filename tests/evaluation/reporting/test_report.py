"""The written report: complete, self-contained, escaped, and the same each time."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean

import pytest
from PIL import Image

from comparison_data import document_of, write_report
from small_experiments import undrawn
from subgraft.evaluation.reporting.document import Figure
from subgraft.evaluation.reporting.drawing import new_figure, png
from subgraft.evaluation.reporting.findings import GENERATED_NOTICE
from subgraft.evaluation.reporting.numbers import signed
from subgraft.evaluation.reporting.plots import (
    MOST_SCORES,
    curve_of,
    curves_figure,
    dev_curves,
    dev_score,
    readable_scores,
    scores_figure,
    shown,
)
from subgraft.evaluation.reporting.records import ReportData, SegmentationExample, TextFacts
from subgraft.evaluation.reporting.report import main_scores, translation_answer
from subgraft.evaluation.reporting.results import SCORES, results
from subgraft.evaluation.reporting.summary import mean_on_dev
from subgraft.evaluation.reporting.table import escape_markdown, table
from subgraft.pipeline.measurements import registry
from subgraft.pipeline.measurements.forgetting import Forgetting
from subgraft.pipeline.measurements.intrinsic import Intrinsic

VOID = {"meta", "img", "br", "link", "input", "hr", "source"}


class StrictReader(HTMLParser):
    """Reads a page, minding that tags nest, and keeps what the tests ask about."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def written(report_data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    write_report(report_data, out)
    return out


@pytest.fixture
def without_pictures() -> Iterator[None]:
    with undrawn():
        yield


@pytest.fixture(scope="module")
def page(written: Path) -> StrictReader:
    reader = StrictReader()
    reader.feed((written / "report.html").read_text(encoding="utf-8"))
    reader.close()
    return reader


def test_the_page_is_well_formed_and_fetches_nothing(written: Path, page: StrictReader) -> None:
    assert page.open == []
    assert not {"link", "iframe", "object"} & set(page.tags)
    assert page.tags.count("script") == 3, "of wide tables, the curves as numbers, and what draws them"
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    html = (written / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"url\(|@import|https?://", html)


def test_images_are_the_plots_next_to_the_markdown(written: Path, page: StrictReader) -> None:
    images = [base64.b64decode(r.split(",", 1)[1]) for r in page.references if r.startswith("data:")]
    names = re.findall(r"\]\((plots/[a-z_]+\.png)\)", (written / "report.md").read_text(encoding="utf-8"))
    expected = ("scores", "costs", "quality_and_speed", "learning_curves", "stages")  # the first on the first screen
    assert names == [f"plots/{name}.png" for name in expected]
    assert [(written / name).read_bytes() for name in names] == images
    for image in images:
        with Image.open(io.BytesIO(image)) as opened:
            opened.load()
            assert opened.format == "PNG"
            assert opened.width == 1500
            assert len(opened.convert("RGB").getcolors(1 << 20) or ()) > 50


@pytest.mark.usefixtures("without_pictures")
def test_the_baseline_has_no_ratio_to_itself(report_data: ReportData) -> None:
    assert report_data.baseline is not None
    alone = replace(report_data, systems=report_data.results(report_data.baseline))
    assert "×1.00" not in str(results(alone))
    assert "×0.66" in str(results(report_data))


@pytest.mark.usefixtures("without_pictures")
def test_dev_references_that_were_left_out_are_reported(report_data: ReportData) -> None:
    curve = tuple(replace(point, references_left_out=2) for point in report_data.systems[0].curve)
    cut = replace(report_data, systems=(replace(report_data.systems[0], curve=curve), *report_data.systems[1:]))
    note = "Dev references longer than the model takes, left out of bits per character: pretrain-finetune 2."
    assert note in str(results(cut))
    assert "left out of bits" not in str(results(report_data))


def test_both_forms_say_the_same(report_data: ReportData, written: Path, page: StrictReader) -> None:
    text = "".join(page.text)
    markdown = (written / "report.md").read_text(encoding="utf-8")
    patt = report_data.results("PATT+KD")[0].scores
    for said in (
        GENERATED_NOTICE,
        f"{patt['BLEU'].value:.2f}",
        f"{fmean(system.scores['TER'].value for system in report_data.results('PATT+KD')):.2f}",
        f"{fmean(system.inference_ece or 0 for system in report_data.results('PATT+KD')):.3f}",
        patt["BLEU"].signature,
        *(score.signature for score in patt.values()),
        "lower is better, and a negative difference is a gain",
        "3.52",
        "lacks 1,786 (59.6 %)",
        "On two seeds nothing is called significant: that takes 3.",
        "everyday (generated)",
        "mlflow ui --backend-store-uri sqlite:///.subgraft/mlflow.db",
        "dcc26dc",
        "1 min 35 s",
        # 18.02 of 27.41 tokens, and 6,900,512 of 7,412,000 parameters
        "×0.66",
        "×0.93",
    ):
        assert said in text
        assert said in markdown


@pytest.mark.usefixtures("without_pictures")
def test_text_from_outside_cannot_break_the_page(report_data: ReportData, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | **x** `y` <img src=http://e.vil/a.png>"
    example = SegmentationExample(evil, 3, (evil,), (evil,))
    named = tuple(
        replace(system, name=f"{evil} & </details>") if system.name == "AVG" else system
        for system in report_data.systems
    )
    hostile = replace(
        report_data,
        title=evil,
        command=f"subgraft run '{evil}'\n```\n# no heading",
        systems=named,
        sources=(evil,) * len(report_data.sources),
        gap=replace(report_data.gap, examples=(example,)),
    )
    write_report(hostile, tmp_path)
    reader = StrictReader()
    reader.feed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert reader.tags.count("script") == 3, "all are the page's own"
    assert reader.tags.count("img") == 5 and reader.open == []
    assert evil in "".join(reader.text).partition("Scores by seed")[0], "the best on dev, in the answer"
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "\n# no heading" in markdown and "# no heading" not in _without_code(markdown)
    assert not re.search(r"(?<!\\)<script", _without_code(markdown))
    for line in (tmp_path / "report.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| source"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3


def _without_code(markdown: str) -> str:
    """Markdown without code, whose characters are what they are."""
    blocks = re.sub(r"(?ms)^(```+)sh$.*?^\1$", "", markdown)
    return re.sub(r"(?<!\\)(`+)(?!`).*?\1", "", blocks)


def test_equal_data_makes_equal_bytes(report_data: ReportData, written: Path, tmp_path: Path) -> None:
    write_report(replace(report_data), tmp_path)
    for path in written.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(written)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.usefixtures("without_pictures")
def test_real_corpora_carry_no_notice_and_one_seed_says_so(report_data: ReportData, tmp_path: Path) -> None:
    real = replace(
        report_data,
        corpora=tuple(replace(corpus, generated=False) for corpus in report_data.corpora),
        systems=tuple(system for system in report_data.systems if system.seed == 1),
    )
    write_report(real, tmp_path)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "generated" not in markdown.lower().replace("sentences generated", "")
    assert "describe these outputs only; other seeds may differ" in markdown


@pytest.mark.usefixtures("without_pictures")
def test_monolingual_text_is_counted(written: Path, report_data: ReportData, tmp_path: Path) -> None:
    facts = TextFacts("target", "de", 1500, 1200, 34567, {"in dev or test": 40, "a second time": 260}, 12)
    corpora = tuple(replace(corpus, dropped={"in dev or test": 7}, near_copies=3) for corpus in report_data.corpora)
    write_report(replace(report_data, text=(facts,), corpora=corpora), tmp_path)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    line = next(line for line in markdown.splitlines() if line.startswith("| target, de"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["target, de", "1,500", "1,200", "34,567", "40 in dev or test, 260 a second time", "12"]
    line = next(line for line in markdown.splitlines() if line.startswith("| downstream") and "law" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")][-2:] == ["7 in dev or test", "3"]
    assert "Monolingual text" not in (written / "report.md").read_text(encoding="utf-8")


def test_curves_show_the_score_that_chose_the_weights(report_data: ReportData) -> None:
    systems = tuple(
        replace(system, curve=tuple(replace(point, dev_chrf=30.0 + point.step / 10) for point in system.curve))
        for system in report_data.systems
    )
    by_bleu, by_chrf = replace(report_data, systems=systems), replace(report_data, systems=systems, select="chrf")
    assert (dev_score(by_bleu).name, dev_score(by_chrf).name) == ("BLEU", "chrF")
    assert curves_figure(by_bleu).png == curves_figure(report_data).png
    assert curves_figure(by_chrf).png != curves_figure(by_bleu).png


def test_curves_of_a_language_model_are_by_characters_and_by_seconds(report_data: ReportData) -> None:
    """Seconds include those that made new embeddings; without characters, the first is by steps."""
    systems = tuple(
        replace(system, curve=tuple(replace(point, dev_bleu=None) for point in system.curve))
        for system in report_data.systems
    )
    data = replace(report_data, systems=systems, characters_per_step=2000)
    by_characters, by_seconds = dev_curves(data)
    assert (by_characters.across, by_seconds.across) == ("characters read", "seconds of training")
    assert curve_of(data, "PATT+KD", by_characters)[-1][0] == 400 * 2000
    assert curve_of(data, "PATT+KD", by_seconds)[-1][0] == pytest.approx(400 * 0.21 + 95.2)
    assert [panel.by for panel in dev_curves(replace(data, characters_per_step=None))] == ["steps", "seconds"]


def test_a_sparse_comparison_is_reported_too(report_data: ReportData, tmp_path: Path) -> None:
    system = replace(report_data.systems[0], transfer=None, curve=report_data.systems[0].curve[:1])
    curve = tuple(replace(point, dev_bleu=None) for point in system.curve)
    sparse = replace(
        report_data,
        baseline=None,
        systems=(replace(system, curve=curve),),
        over_segmented={},
        stages=(),
        commands=(),
        gap=replace(report_data.gap, examples=()),
    )
    write_report(sparse, tmp_path)
    titles = [section.title for section in document_of(sparse).sections]
    assert "Commands to go on with" not in titles and SCORES in titles


@pytest.mark.slow
def test_what_was_measured_has_a_section_and_a_plot(wide_data: ReportData, tmp_path: Path) -> None:
    added = registry.measured(wide_data, "translation")
    document = document_of(wide_data, added)
    titles = [section.title for section in document.sections]
    assert {"Quality and speed", "Sweeps", "Calibration", "Forgetting", "Intrinsic quality"} <= set(titles)
    named = {figure.name for figure in document.figures}
    assert named >= {"granularity", "generator_steps", "reliability", "intrinsic_decoder", "quality_and_speed"}
    write_report(wide_data, tmp_path, added)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    lines = [re.sub(" +", " ", line) for line in markdown.splitlines()]
    after = fmean(system.scores["BLEU"].value for system in wide_data.results("random"))
    measured = wide_data.results("random")[0].measured(Forgetting)
    assert measured is not None and measured.before is not None
    row = f"| random | {measured.before.value:.2f} | {after:.2f} | {signed(after - measured.before.value)} ["
    assert any(line.startswith(row) for line in lines)
    made = wide_data.measured(Intrinsic)["avg"][0].sides["decoder"]
    assert any(line.startswith(f"| avg | {made.tokens} |") and "20.0 %" in line for line in lines)


@pytest.mark.slow
def test_the_picture_of_many_systems_has_the_best_on_dev(wide_data: ReportData) -> None:
    names = shown(wide_data, MOST_SCORES)
    others = [name for name in wide_data.system_names if name not in names]
    assert len(names) == MOST_SCORES + 1 and wide_data.baseline in names
    least = min(mean_on_dev(wide_data, name) for name in names if name != wide_data.baseline)
    assert others and all(mean_on_dev(wide_data, name) <= least for name in others)
    assert "Of 22 systems these are best on dev" in scores_figure(wide_data, main_scores(wide_data)).caption


@pytest.mark.usefixtures("without_pictures")
def test_the_first_screen_has_the_answer_the_command_and_a_picture(report_data: ReportData, tmp_path: Path) -> None:
    """In this order, in both forms; all else is below it, folded in HTML."""
    data = replace(report_data, command="subgraft run configs/laws.yaml finetune.epochs=5")
    write_report(data, tmp_path)
    html, markdown = ((tmp_path / f"report.{form}").read_text(encoding="utf-8") for form in ("html", "md"))
    answer = translation_answer(data)
    assert answer.system == "AVG" and "34.3 % fewer tokens (18.0 in place of 27.4)" in answer.sentence
    headings = [section.title for section in document_of(data).sections]
    order = {
        html: [answer.sentence, GENERATED_NOTICE, data.command, answer.remarks[0], "<img src=", *headings],
        markdown: [
            escape_markdown(answer.sentence),
            GENERATED_NOTICE,
            data.command,
            answer.remarks[0],
            "plots/scores.png",
            *(f"## {heading}" for heading in headings),
        ],
    }
    for text, parts in order.items():
        rest = text.partition("</style>")[2] or text
        for part in parts:
            assert part in rest, part
            rest = rest.partition(part)[2]
    first = html.partition("<details")[0]
    assert "<table" not in first.partition("</style>")[2] and html.count("<h2>") == len(headings)
    assert html.count('<details class="section">') == len(headings), "without scripts too"
    assert not re.search(r"<details[^>]* open", html)
    assert "details::details-content { content-visibility: visible" in html.partition("@media print")[2]


@pytest.mark.usefixtures("without_pictures")
def test_what_was_not_measured_has_no_section(report_data: ReportData) -> None:
    added = registry.measured(report_data, "translation")
    titles = {section.title for section in document_of(report_data, added).sections}
    assert not titles & {"Sweeps", "Calibration", "Forgetting", "Intrinsic quality"}


@pytest.mark.usefixtures("without_pictures")
def test_trained_parameters_are_reported_where_systems_differ(report_data: ReportData) -> None:
    said = "Parameters that finetuning trained"
    alike = [replace(each, trained_parameters=each.parameters, peak_memory=2**30) for each in report_data.systems]
    assert said not in str(results(replace(report_data, systems=tuple(alike))))
    alone = [
        replace(each, trained_parameters=2_000_000, peak_memory=3 * 2**29) if each.name == "AVG" else each
        for each in alike
    ]
    assert "AVG 2.0 M (1.5 GiB)" in str(results(replace(report_data, systems=tuple(alone))))
    # A store of before does not tell.
    assert said not in str(results(report_data))


@pytest.mark.usefixtures("without_pictures")
def test_the_step_of_the_weights_is_shown_and_step_0_is_warned_of(report_data: ReportData, tmp_path: Path) -> None:
    """In the table of curves, before the scores, and below the system's name."""
    assert all(system.selected_step for system in report_data.systems)
    write_report(report_data, tmp_path)
    before = (tmp_path / "report.md").read_text(encoding="utf-8")
    steps = " · ".join(str(result.selected_step) for result in report_data.results("AVG"))
    assert re.search(rf"\| AVG +\| +{re.escape(steps)} \| +400 \|", before) and "weights of step 0" not in before
    systems = tuple(
        replace(system, selected_step=0) if (system.name, system.seed) == ("random", 2) else system
        for system in report_data.systems
    )
    write_report(replace(report_data, systems=systems), tmp_path)
    after = (tmp_path / "report.md").read_text(encoding="utf-8")
    (first,) = (result.selected_step for result in report_data.results("random") if result.seed == 1)
    assert re.search(rf"\| random +\| +{first} · \*\*0\*\* \|", after)
    assert "> **Step 0: best on dev before any training" in after.partition("plots/scores.png")[0]
    assert "| random **weights of step 0**" in after
    assert after.count("before any training") == 1


@pytest.mark.usefixtures("without_pictures")
def test_without_a_baseline_none_is_mentioned(report_data: ReportData, tmp_path: Path) -> None:
    write_report(replace(report_data, baseline=None), tmp_path)
    for form in ("report.md", "report.html"):
        text = (tmp_path / form).read_text(encoding="utf-8")
        assert "None" not in text and "how many times" not in text
    assert "There is no baseline" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_pictures")
def test_speeds_of_a_busy_machine_are_marked(report_data: ReportData, tmp_path: Path) -> None:
    """Those alone; and none where the load is unknown, or no more than the cores."""
    loads = {"mean": (12.3, 2), "AVG": (2.0, 2), "random": (None, None)}
    systems = tuple(
        replace(system, load=load, cores=cores)
        for system in report_data.systems
        for load, cores in [loads.get(system.name, (0.5, 2))]
    )
    write_report(replace(report_data, systems=systems), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.count("busy: load 12") == 1 and "Busy: 2 of 10 speeds were measured" in text
    (row,) = (line for line in text.splitlines() if "busy: load" in line)
    assert row.startswith("| mean ")
    write_report(report_data, tmp_path)
    assert "usy:" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_curves_are_there_as_numbers_and_as_a_picture(report_data: ReportData, written: Path) -> None:
    """What a script draws is what the picture shows; where scripts are off, the picture is there."""
    html = (written / "report.html").read_text(encoding="utf-8")
    (numbers,) = re.findall(r'<script type="application/json" class="numbers">(.*?)</script><picture><source', html)
    bits, bleu = json.loads(numbers)
    assert (bits["across"], bleu["title"]) == ("finetuning step", "BLEU on dev")
    assert [series["name"] for series in bits["series"]] == list(report_data.system_names)
    last = [result.curve[-1] for result in report_data.results("mean")]
    drawn = next(series for series in bits["series"] if series["name"] == "mean")["points"][-1]
    values = [point.dev_bits_per_character or 0.0 for point in last]
    assert drawn == pytest.approx([400, sum(values) / 2, min(values), max(values)], abs=1e-4)
    assert "prefers-color-scheme: dark" in html


def test_a_narrow_screen_gets_panels_above_one_another(written: Path) -> None:
    html = (written / "report.html").read_text(encoding="utf-8")
    pictures = re.findall(
        r'<source media="[^"]+" srcset="data:image/png;base64,([^"]+)"><img src="data:[^,]+,([^"]+)"', html
    )
    assert len(pictures) >= 3, "scores, costs, and quality and speed"
    (width, height), (wide, low) = (_size(picture) for picture in pictures[0])
    assert width < 700 < wide and height > 1.8 * low, "two panels"
    assert html.count('<p class="wider" hidden>') == html.count('<div class="scroll"')


def _size(picture: str) -> tuple[int, int]:
    """Width and height, as a PNG's header has them."""
    header = base64.b64decode(picture)[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])


def test_an_axis_of_equal_scores_is_one_of_scores() -> None:
    """Scores that differ by rounding alone are not drawn apart, under an axis of 1e-16."""
    with new_figure(4, 2) as figure:
        panel = figure.subplots()
        panel.plot([0.0, 2e-16, 1e-16], [0, 1, 2], "o")
        readable_scores(panel)
        png(figure)
        low, high = panel.get_xlim()
        labels = [tick.get_text() for tick in panel.get_xticklabels()]
        assert high - low >= 1 and panel.xaxis.get_offset_text().get_text() == "" and "0.0" in labels


def test_numbers_cannot_end_their_script(report_data: ReportData) -> None:
    figure = Figure("curves", b"", "", ({"title": "</script><script>alert(1)"},))
    assert "<" not in figure.panels_json
    assert json.loads(figure.panels_json)[0]["title"] == "</script><script>alert(1)"


@pytest.mark.slow
def test_names_of_rows_are_not_broken(wide_data: ReportData, tmp_path: Path) -> None:
    write_report(wide_data, tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    for caption in ("Scores on the test set", "Fit, length, calibration, speed and cost; means over seeds"):
        assert f'<table class="named">\n<caption><span>{caption}' in html
    assert re.search(r"\.named td:first-child \{ white-space: pre; overflow-wrap: normal; \}", html)
    long = table(["words"], [["a sentence that goes on for longer than any name of a row would"]])
    assert not long.names_rows
