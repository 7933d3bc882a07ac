"""Where the rows come from: data, commands, versions."""

from __future__ import annotations

from collections.abc import Sequence

from sagpool.report.content import Content
from sagpool.report.table import Table, code, listing, long, number, text


def data_table(content: Content) -> Table:
    """The paper's Table 1, of the data sets that there are runs on."""
    used = dict.fromkeys(run.fingerprint for run in content.runs)
    statistics = [(fingerprint, content.statistics[fingerprint]) for fingerprint in used]
    rows = [
        [
            text(s.name),
            text(f"{s.features} {s.feature_kind}"),
            code(fingerprint[:12]),
            number(s.graphs, ",d"),
            text(s.classes),
            number(s.avg_nodes),
            number(s.avg_edges),
            number(None if s.majority is None else 100 * s.majority, ".1f"),
        ]
        for fingerprint, s in statistics
    ]
    return listing(
        "data",
        "The data sets. Majority: share of the most frequent class, in percent.",
        [
            *("data set", "node features", "fingerprint", "graphs", "classes", "avg nodes"),
            *("avg edges", "majority"),
        ],
        rows,
        [{"fingerprint": fingerprint, **vars(s)} for fingerprint, s in statistics],
        words=("data set", "node features", "fingerprint"),
    )


def invocations_table(content: Content) -> Table:
    runs_of = {
        one.id: [r for r in content.runs if r.invocation == one.id] for one in content.invocations
    }
    rows = [
        [
            text(one.started.replace("T", " ").removesuffix("+00:00")),
            text(one.experiment),
            text(_numbers(sorted({run.seed for run in runs_of[one.id]}))),
            number(len(runs_of[one.id]), ",d"),
            text(one.device),
            long(one.command),
            long(", ".join(f"{name} {version}" for name, version in one.versions.items())),
        ]
        for one in content.invocations
    ]
    records = [
        {
            "started": one.started,
            "command": one.command,
            "experiment": one.experiment,
            "device": one.device,
            **one.versions,
            "seeds": _numbers(sorted({run.seed for run in runs_of[one.id]})),
            "runs": len(runs_of[one.id]),
            "last_finished": max((run.finished for run in runs_of[one.id]), default=None),
        }
        for one in content.invocations
    ]
    return listing(
        "commands",
        "The commands that made the rows (times in UTC), and what they ran on.",
        ["started", "experiment", "seeds", "runs", "device", "command", "versions"],
        rows,
        records,
        words=("started", "experiment", "seeds", "device", "command", "versions"),
    )


def span(content: Content) -> str:
    """From the first start to the last row, as days."""
    begin = content.invocations[0].started[:10]
    end = max(run.finished for run in content.runs)[:10]
    return begin if begin == end else f"{begin} to {end}"


def _numbers(values: Sequence[int]) -> str:
    """0 to 19, or 0, 3, 7."""
    if not values:
        return ""
    first, last = values[0], values[-1]
    if len(values) > 2 and last - first + 1 == len(values):
        return f"{first} to {last}"
    return ", ".join(map(str, values))
