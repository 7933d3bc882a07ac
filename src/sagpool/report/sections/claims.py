"""The claims of the paper, and the verdicts of our rows."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from sagpool.bench.claims import (
    COMPARED,
    RULE,
    CellRows,
    Changed,
    Claim,
    Gap,
    Judged,
    Line,
    Method,
    Phrase,
    Verdict,
    judge_claims,
    p_text,
    related_changes,
)
from sagpool.bench.claims.published import WIDEST
from sagpool.bench.experiment import Related
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.sections.differences import differences_drawing
from sagpool.report.sections.results import protocol
from sagpool.report.table import Cell, Table, joined, listing, method, number, numbers, text, words
from sagpool.statistics import SIGNIFICANT

MARK = "†"
CONTROL = "control"  # stands in place of a section of the paper
ACCURACY = (*COMPARED, "steadier", "agrees-with-published")  # kinds of tests
NOT_TESTED = "Claims about which the rows say nothing, and why."


def section(content: Content) -> Section:
    """The claims; empty if rows can test none, for example if all are about other data."""
    first = content.groups[0]  # the protocol closest to the experiment's
    cells = {
        group.chosen: {(s.cell.dataset, s.method): CellRows.of(s) for s in group.cells}
        for group in content.groups
        if group.differences == first.differences
    }
    judged = judge_claims(content.experiment, cells) if content.experiment else []
    parts = []
    if any(one.found.lines for one in judged):
        untested = [one for one in judged if one.found.verdict is Verdict.NOT_TESTED]
        tested = [one for one in judged if one not in untested]
        parts = [
            Part(table=claims_table(tested)),
            Part("All comparisons of the claims", comparisons_table(judged), folded=True),
        ]
        if untested:
            table = replace(claims_table(untested), name="claims-not-tested", caption=NOT_TESTED)
            parts.append(Part("Claims that were not tested", table, folded=True))
    drawing = differences_drawing("claims-differences", "Differences behind the verdicts", judged)
    if drawing:
        parts.append(Part("All differences in one picture", drawings=[drawing], folded=True))
    intro = [summary(judged), *([protocol(content, first)] if first.differences else [])]
    means = any(not line.dataset for one in judged for line in one.found.lines)
    if content.experiment and means:
        related = content.experiment.related
        intro += related_text(related, related_changes(content.experiment, cells))
    return Section("claims", "Claims and verdicts", parts, intro)


def summary(judged: Sequence[Judged]) -> str:
    """Number of claims with each verdict; those on accuracy by themselves."""
    controls = [one for one in judged if one.claim.where == CONTROL]
    paper = [one for one in judged if one.claim.where != CONTROL]
    accuracy = [one for one in paper if one.claim.kind in ACCURACY]
    others = [one for one in paper if one.claim.kind not in ACCURACY]
    about = " about accuracy" if accuracy and others else ""
    groups = {
        f"Of {_claims(accuracy)} of the paper{about}": accuracy,
        f"Of {_claims(others)} {'about other things' if accuracy else 'of the paper'}": others,
        "Of our control questions": controls,
    }
    return " ".join(f"{which}, {_verdicts(some)}." for which, some in groups.items() if some)


def _claims(judged: Sequence[Judged]) -> str:
    return f"{len(judged)} {'claim' if len(judged) == 1 else 'claims'}"


def related_text(related: Related, changes: Sequence[Changed]) -> list[str]:
    """A paragraph on data sets that are not independent; nothing if all are."""
    if not related:
        return []
    groups = "; ".join(" and ".join(group) for group in related)
    text = (
        "Means over data sets take these as independent, but some share graphs (for example, the "
        f"same molecules): {groups}. "
    )
    if not changes:
        return [text + "If their errors were fully correlated, no verdict would change."]
    listed = "; ".join(
        f"“{phrase(one.claim.text).plain.rstrip('.')}” ({one.chosen}: {one.verdict}, then "
        f"{one.bound})"
        for one in changes
    )
    return [
        text + "If their errors were fully correlated, which is the worst case, these verdicts "
        f"would change: {listed}."
    ]


def _verdicts(judged: Iterable[Judged]) -> str:
    counts = Counter(one.found.verdict for one in judged)
    singular = {
        Verdict.FAILS: "does not hold",
        Verdict.IN_PART: "holds in part",
        Verdict.UNDECIDED: "is undecided",
        Verdict.HOLDS: "holds",
        Verdict.NOT_TESTED: "is not tested",
    }
    plural = {
        Verdict.FAILS: "do not hold",
        Verdict.IN_PART: "hold in part",
        Verdict.UNDECIDED: "are undecided",
        Verdict.HOLDS: "hold",
        Verdict.NOT_TESTED: "are not tested",
    }
    parts = [
        f"{counts[verdict]} {(singular if counts[verdict] == 1 else plural)[verdict]}"
        for verdict in Verdict
        if counts[verdict]
    ]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def claims_table(judged: Sequence[Judged]) -> Table:
    return listing(
        "claims",
        "What the paper claims, and what we find. Differences are in percentage points of test "
        "accuracy, with 95 % intervals in brackets.",
        [
            words("claim", [phrase(one.claim.text) for one in judged]),
            words("in the paper", [one.claim.where for one in judged]),
            words("what we find", [joined(map(phrase, one.found.found)) for one in judged]),
            words("verdict", [_verdict(one) for one in judged]),
            words("how sure", [_certainty(one) for one in judged]),
        ],
        [_record(one) for one in judged],
        _notes(judged),
        prose=True,
    )


def comparisons_table(judged: Sequence[Judged]) -> Table:
    shown = [(one.claim, line) for one in judged for line in one.found.lines]
    lines = [line for _, line in shown]
    return listing(
        "claims-comparisons",
        "Every comparison behind a verdict, with p after Holm's correction over the comparisons "
        "of the claim; of published results, over all of them.",
        [
            words("claim", [claim.id for claim, _ in shown]),
            words("data set", [line.dataset or "mean over data sets" for line in lines]),
            words("first", [_group(line.first) for line in lines]),
            words("second", [_group(line.second) for line in lines]),
            numbers("difference or ratio", [_value(claim, line) for claim, line in shown]),
            numbers("95 % interval", [_interval(line) for line in lines]),
            numbers("p (Holm)", [p_text(line.p) for line in lines]),
            words("outcome", [line.outcome for line in lines]),
            numbers("runs or seeds", [line.runs for line in lines], "d"),
        ],
        [
            {
                "claim": claim.id,
                "dataset": line.dataset,
                "first": " ".join(line.first),
                "second": " ".join(line.second),
                "value": line.value,
                "low": line.low,
                "high": line.high,
                "holm_p": line.p,
                "outcome": line.outcome,
                "runs": line.runs,
            }
            for claim, line in shown
        ],
    )


def phrase(parts: Phrase) -> Cell:
    return joined((method(part) if isinstance(part, Method) else text(part) for part in parts), "")


def _verdict(one: Judged) -> Cell:
    verdict = one.found.verdict
    words = str(verdict) + (MARK if one.marked else "")
    html = Markup('<span class="verdict {}">{}</span>').format(verdict.name.lower(), words)
    return Cell(words, html, names.tex_escape(words))


def _certainty(one: Judged) -> Cell:
    cells = [(str(one.chosen),)] if one.chosen and one.found.lines else []
    others = [(f"with {way}: {found.verdict}",) for way, found in one.others.items() if found.lines]
    parts = [*cells, *one.found.certainty, *others, *gap_phrases(one.found.gaps)]
    return joined(map(phrase, parts))


def gap_phrases(gaps: Iterable[Gap]) -> list[Phrase]:
    """One phrase for all gaps with the same reason on the same data sets."""
    datasets: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        datasets.setdefault((gap.method, gap.reason), []).append(gap.dataset)
    methods: dict[tuple[str, str], list[str]] = {}
    for (name, reason), where in datasets.items():
        listed = ", ".join(where) if len(where) < 4 else f"{len(where)} data sets"
        methods.setdefault((listed, reason), []).append(name)
    return [
        (*_listed(here), " on " if all(here) and listed else "", listed, f": {reason}")
        for (listed, reason), here in methods.items()
    ]


def _listed(methods: Iterable[str]) -> Phrase:
    parts = [part for name in methods if name for part in (Method(name), ", ")]
    return tuple(parts[:-1])


def _group(methods: Sequence[str]) -> Cell:
    return joined(map(method, methods), ", ") if methods else text("published")


def _value(claim: Claim, line: Line) -> Cell:
    return number(line.value, ".2f" if claim.kind == "steadier" else "+z.2f")


def _interval(line: Line) -> str:
    if line.low is None or line.high is None:
        return ""
    return f"{line.low:+z.2f} to {line.high:+z.2f}".replace("-", "−")


def _record(one: Judged) -> dict[str, Any]:
    claim, found, chosen, _ = one
    return {
        "id": claim.id,
        "claim": phrase(claim.text).plain,
        "where": claim.where,
        "test": claim.kind,
        "verdict": str(found.verdict),
        "judged_on": str(chosen or ""),
        "otherwise": "; ".join(f"{way}: {found.verdict}" for way, found in one.others.items()),
        "found": joined(map(phrase, found.found)).plain,
        "certainty": joined(map(phrase, found.certainty)).plain,
        "gaps": joined(map(phrase, gap_phrases(found.gaps))).plain,
    }


def _notes(judged: Sequence[Judged]) -> list[str]:
    kinds = {one.claim.kind for one in judged if one.found.lines}
    compared = bool(kinds & {*COMPARED})
    differences = (one for one in judged if one.claim.kind in COMPARED)
    unknown = any(line.low is None for one in differences for line in one.found.lines)
    applies = {
        f"{MARK} Some of the rows are missing, incomplete or of other data; the last column says "
        "which.": any(one.marked for one in judged),
        RULE: bool(kinds),
        "Methods are compared on the same splits, with the corrected error of Nadeau and Bengio; "
        "means over data sets give each the same weight and add up the variances (of independent "
        "data sets). Better, worse: "
        f"p below {SIGNIFICANT} after Holm's correction. Equivalent: two one-sided tests say that "
        "the difference is below the margin (1 point unless the claim says otherwise).": compared,
        "Resolution: half of the 95 % interval. A smaller difference cannot be told from zero. It "
        "hardly falls with more seeds, which all use the same graphs.": compared,
        "Interval or resolution unknown: on one data set at least, the difference is the same on "
        "all splits, which says nothing about other graphs.": unknown,
        "Differ: by Welch's t-test of our per-seed means against the published mean and standard "
        f"deviation, p below {SIGNIFICANT} after Holm's correction over all cells with a published "
        "result, whatever the claim. Undecided: they do not, but the 95 % interval of the "
        f"difference is wider than ±{WIDEST:g} points.": "agrees-with-published" in kinds,
    }
    return [note for note, condition in applies.items() if condition]
