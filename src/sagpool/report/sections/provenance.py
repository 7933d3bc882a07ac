"""Where the results come from: data sets, commands, versions."""

from collections.abc import Sequence

import numpy as np

from sagpool.bench.provenance import COMMIT, KERNELS, UNKNOWN
from sagpool.report.content import Content
from sagpool.report.section import Part, Section
from sagpool.report.table import Table, code, listing, long, numbers, words


def section(content: Content) -> Section:
    parts = [Part(table=_data_table(content)), Part(table=_commands_table(content))]
    return Section("provenance", "Where this comes from", parts, [_kernels(content)])


def _kernels(content: Content) -> str:
    """The number of versions of the kernels that made the rows, and the cells that mix them."""
    made_by = {one.id: one.kernels for one in content.invocations}
    used = {made_by[number] for number in np.unique(content.runs.column("invocation")).tolist()}
    known = sorted(used - {UNKNOWN})
    if not known:
        return "The commit and the kernels that made the rows are unknown: the store is older."
    several = f"{len(known)} versions of the kernels" if len(known) > 1 else "the same kernels"
    sentence = f"All rows were made with {several} ({', '.join(known)})."
    if UNKNOWN in used:
        sentence = f"Some rows were made with unknown kernels, all others with {several}"
        sentence += f" ({', '.join(known)})."
    mixed = sum(len(content.kernels(s)) > 1 for s in content.summaries)
    return sentence + (f" Cells with rows of more than one version: {mixed}." if mixed else "")


def _data_table(content: Content) -> Table:
    """The paper's Table 1, for the data sets of the store."""
    fingerprints = [group.fingerprint for group, _ in content.runs.by_group]
    by_fingerprint = {one: content.statistics[one] for one in fingerprints}
    data = by_fingerprint.values()
    told_apart = len({s.name for s in data}) == len(data)
    labels = {} if told_apart else {s.cell.fingerprint: s.cell.dataset for s in content.summaries}
    majority = [None if s.majority is None else 100 * s.majority for s in data]
    return listing(
        "data",
        "The data sets. Majority: share of the most frequent class, in percent.",
        [
            words("data set", [labels.get(one, s.name) for one, s in by_fingerprint.items()]),
            words("node features", [f"{s.features} {s.feature_kind}" for s in data]),
            words("fingerprint", [code(fingerprint[:12]) for fingerprint in by_fingerprint]),
            numbers("graphs", [s.graphs for s in data], ",d"),
            numbers("classes", [s.classes for s in data], "d"),
            numbers("avg nodes", [s.avg_nodes for s in data]),
            numbers("avg edges", [s.avg_edges for s in data]),
            numbers("majority", majority, ".1f"),
        ],
        [{"fingerprint": fingerprint, **vars(s)} for fingerprint, s in by_fingerprint.items()],
    )


def _commands_table(content: Content) -> Table:
    commands = content.invocations
    runs = [content.runs.of_invocation(one.id) for one in commands]
    started = [one.started.replace("T", " ").removesuffix("+00:00") for one in commands]
    versions = [
        ", ".join(f"{k} {v}" for k, v in one.versions.items() if k not in (COMMIT, KERNELS))
        for one in commands
    ]
    seeds = [_numbers(np.unique(here.column("seed")).tolist()) for here in runs]
    return listing(
        "commands",
        "The commands that made the rows (times in UTC), and what they ran on.",
        [
            words("started", started),
            words("experiment", [one.experiment for one in commands]),
            words("seeds", seeds),
            numbers("runs", [len(here) for here in runs], ",d"),
            words("device", [one.device for one in commands]),
            words("command", [long(one.command) for one in commands]),
            words("commit", [code(one.commit) for one in commands]),
            words("kernels", [code(one.kernels) for one in commands]),
            words("versions", map(long, versions)),
        ],
        [
            {
                "started": one.started,
                "command": one.command,
                "experiment": one.experiment,
                "device": one.device,
                **one.versions,
                COMMIT: one.commit,
                KERNELS: one.kernels,
                "seeds": seeds_here,
                "runs": len(here),
                "last_finished": here.last_finished,
            }
            for one, here, seeds_here in zip(commands, runs, seeds, strict=True)
        ],
    )


def _numbers(values: Sequence[int]) -> str:
    """A list of integers as text: 0 to 19, or 0, 3, 7."""
    if not values:
        return ""
    first, last = values[0], values[-1]
    if len(values) > 2 and last - first + 1 == len(values):
        return f"{first} to {last}"
    return ", ".join(map(str, values))
