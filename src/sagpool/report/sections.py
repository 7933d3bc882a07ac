"""The sections of the report, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sagpool.report import listings, provenance, results
from sagpool.report.canvas import Picture
from sagpool.report.content import Content
from sagpool.report.heat import Heat, heat
from sagpool.report.pictures import Gallery
from sagpool.report.table import Table


@dataclass(frozen=True)
class Part:
    """A piece of a section: a table, a matrix, or pictures side by side, perhaps with a heading."""

    heading: str = ""
    table: Table | None = None
    heat: Heat | None = None
    pictures: Sequence[Picture] = ()
    hidden: bool = False  # behind a line to click on: what only few want to read


@dataclass(frozen=True)
class Section:
    anchor: str
    title: str
    parts: Sequence[Part]
    intro: Sequence[str] = field(default=())


def sections(content: Content, gallery: Gallery) -> list[Section]:
    """Those that have something to show."""
    made = [
        _results(content),
        _accuracy(gallery),
        _pairs(content),
        _curves(gallery),
        _search(content),
        _sensitivity(gallery),
        _costs(content, gallery),
        _parameters(gallery),
        _kept(gallery),
        _cells(content),
        _provenance(content),
    ]
    return [section for section in made if section.parts]


def _results(content: Content) -> Section:
    parts = [Part(table=results.results_table(content))]
    variants = results.variants_table(content)
    if variants is not None:
        parts.append(Part(heading="Variants of SAGPool", table=variants))
    published = any(summary.cell.paper_mean is not None for summary in content.shown)
    title = "Ours beside the paper's" if published else "Results"
    return Section("results", title, parts)


def _accuracy(gallery: Gallery) -> Section:
    return Section(
        "accuracy",
        "Every test accuracy",
        [Part(pictures=gallery.accuracy)],
        [
            "A dot is one training: one seed, one fold. The box spans the middle half, with a line "
            "at the median."
        ],
    )


def _pairs(content: Content) -> Section:
    parts = []
    for dataset in content.datasets:
        pairs = [pair for pair in content.pairs if pair.dataset == dataset]
        methods = [s.cell.method for s in content.of(dataset)]
        compared = [m for m in methods if any(m in (pair.first, pair.second) for pair in pairs)]
        if pairs:
            parts.append(Part(heat=heat(content.label(dataset), compared, pairs)))
    if parts:
        table = listings.pairs_table(content)
        parts.append(Part(heading="All pairs as a list", table=table, hidden=True))
    return Section(
        "pairs",
        "Which differences are real?",
        parts,
        [
            "Row less column, in points of test accuracy on the same splits; below it p after "
            "Holm's correction over all pairs of the data set. Bold: p below "
            f"{results.SIGNIFICANT}. The test is the corrected resampled t-test of Nadeau and "
            "Bengio, which knows that the trainings of a cross-validation share their data."
        ],
    )


def _curves(gallery: Gallery) -> Section:
    return Section(
        "curves",
        "Learning curves",
        [Part(pictures=gallery.curves)],
        [
            "Median loss over the runs still running, as long as at least half of them are: "
            "validation solid, with a band over the middle half; train dashed, dropout active.",
            "Below: dots are the epochs with the lowest validation loss, whose weights are tested; "
            "the bar spans the middle half of the epochs at which the trainings stopped, with a "
            "mark at the median. The axis ends where 95 % of the trainings have stopped.",
        ],
    )


def _search(content: Content) -> Section:
    table = listings.search_table(content)
    return Section("search", "What the search chose", [] if table is None else [Part(table=table)])


def _sensitivity(gallery: Gallery) -> Section:
    return Section(
        "sensitivity",
        "How much a setting matters",
        [Part(pictures=gallery.sensitivity)] if gallery.sensitivity else [],
        [
            "Validation accuracy, never test, against each setting that varies among runs of the "
            "same data set, method and protocol: the mean over all other settings that were tried, "
            "on the splits that all of them share, if there are any. A training that diverged at "
            "once counts as 0 %."
        ],
    )


def _costs(content: Content, gallery: Gallery) -> Section:
    parts = [Part(pictures=gallery.costs)] if gallery.costs else []
    return Section(
        "costs",
        "Time and memory",
        [*parts, Part("As a table", listings.costs_table(content), hidden=bool(parts))],
        [
            "Time is that of a whole training with early stopping, shared out among those that "
            "trained side by side; memory is what a training step of one model holds."
        ],
    )


def _parameters(gallery: Gallery) -> Section:
    return Section(
        "parameters",
        "Parameters and the size of graphs",
        [Part(pictures=[gallery.parameters])],
        [
            "The paper's Figure 4, of all registered hierarchical methods: 128 node features, "
            "hidden size 128, two classes. Methods whose counts differ by less than 3 % share a "
            "line."
        ],
    )


def _kept(gallery: Gallery) -> Section:
    parts = [Part(heading=row.heading, pictures=row.pictures) for row in gallery.kept]
    return Section(
        "kept",
        "What was kept",
        parts,
        [
            "Test graphs of the first run of a cell (seed 0, fold 0): the nodes that each pooling "
            "kept, coloured by the score with which they were multiplied. Graphs of about the "
            "median size, from each class in turn; they were not picked by their result. Shown are "
            "at most four methods of each data set.",
        ],
    )


def _cells(content: Content) -> Section:
    repeated = len(content.summaries) - len(content.shown)
    intro = []
    if repeated:
        intro = [
            f"{repeated} of these {len(content.summaries)} cells were asked for again later with "
            "other settings; all other sections show the one asked for last, never the best one."
        ]
    return Section("cells", "All cells", [Part(table=listings.cells_table(content))], intro)


def _provenance(content: Content) -> Section:
    return Section(
        "provenance",
        "Where this comes from",
        [
            Part(table=provenance.data_table(content)),
            Part(table=provenance.invocations_table(content)),
        ],
    )
