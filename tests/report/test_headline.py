"""The main result is the best of all that the store has."""

from dataclasses import replace

import pytest

from sagpool.bench.scores import CellScores
from sagpool.report import headline
from sagpool.report.content import read_content
from sagpool.report.sections import ranks
from sagpool.statistics import Spread


def sentences(store):
    return [str(one) for one in headline.sentences(read_content(store))]


@pytest.mark.parametrize("best", ["sagpool-h-mine", "sagpool-h-cheb", "zpool-h"])
def test_a_method_with_a_suffix_may_be_the_best(make, made, best):
    cells = [made(method=m, mean=mean) for m, mean in ((best, 80), ("sagpool-h", 70))]
    (first,) = sentences(make(*cells, made(method="gpool-h", mean=65)))
    name = best.replace("sagpool-h-mine", "SAGPool<sub>h, mine</sub>")
    name = name.replace("sagpool-h-cheb", "SAGPool<sub>h, Cheb</sub>")
    name = name.replace("zpool-h", "zpool<sub>h</sub>")
    assert first.startswith(
        f"Among the hierarchical methods, <strong>{name}</strong> has the highest mean on MADE: "
    )
    assert "significantly ahead of SAGPool<sub>h</sub>" in first


def test_equal_means_have_no_leader(make, made, tmp_path):
    from sagpool.report import write_report

    same = {"accuracy": (66.0, 67.0, 66.0, 67.0, 66.0), "seeds": 1}
    cells = [made(method=m, **same) for m in ("sagpool-h", "gpool-h")]
    lower = made(method="random-h", accuracy=(60.0,) * 5, seeds=1)
    store = make(*cells, lower)
    (first,) = sentences(store)
    assert first == (
        "Among the hierarchical methods, <strong>gPool<sub>h</sub></strong> and "
        "<strong>SAGPool<sub>h</sub></strong> have the same highest mean on MADE: 66.4 %."
    )
    write_report(store, tmp_path / "report")
    assert (tmp_path / "report/tables/results.md").read_text().count("**66.40**") == 2


def test_a_method_with_other_settings_may_be_the_best(make, made):
    other = {"method_settings": {"losses": "none"}}
    first, *_ = sentences(
        make(
            made(method="diffpool-h", mean=60),
            made(method="sagpool-h", mean=65),
            made(method="diffpool-h", mean=90, settings=other),
        )
    )
    assert "<strong>DiffPool<sub>h</sub>, losses none</strong> has the highest mean" in first


def test_all_architectures_are_compared_first(make, made):
    first, *rest = sentences(
        make(
            made(method="sagpool-h", mean=60),
            made(method="gpool-h", mean=62),
            made(method="mine", mean=90),
            made(method="sagpool-g", mean=80),
        )
    )
    assert first.startswith("Of all methods, <strong>mine</strong> has the highest mean on MADE")
    assert [one[:30] for one in rest] == ["Among the hierarchical methods"]


def test_a_better_one_in_another_table_is_named(make, made):
    searched = made(mean=85, settings={"lr": 0.01}, candidates=({"lr": 0.01}, {"lr": 0.02}))
    longer = made(method="gpool-h", mean=95, settings={"patience": 5})
    plain = [made(method=m, mean=70) for m in ("sagpool-h", "gpool-h", "random-h")]
    found = sentences(make(longer, searched, *plain))
    assert any(
        "is in another table: <strong>gPool<sub>h</sub></strong> with fixed settings and another "
        "protocol, 9" in one
        for one in found
    )


def test_rows_of_another_precision_have_a_table_of_their_own(make, made, tmp_path):
    from sagpool.bench.store import Store

    path = make(made(method="sagpool-h"), made(method="gpool-h"))
    with Store.writing(path) as store:
        store.connection.execute("UPDATE cells SET precision = 'bf16' WHERE method = 'gpool-h'")
        store.connection.execute(
            "UPDATE runs SET precision = 'bf16', checksum = NULL WHERE method = 'gpool-h'"
        )
    groups = read_content(path).groups
    assert [[s.method for s in group.cells] for group in groups] == [["sagpool-h"], ["gpool-h"]]
    assert groups[1].differences == ("a precision of bf16",)


def test_a_diagram_of_ranks_over_data_sets(make, made, tmp_path):
    from sagpool.report import write_report

    order = ("sagpool-h", "gpool-h", "random-h", "diffpool-h")
    cells = [
        made(dataset=f"D{i}", method=m, mean=60 + 5 * n, seeds=1)
        for i in range(3)
        for n, m in enumerate(order)
    ]
    page = write_report(make(*cells), tmp_path / "report").read_text()
    assert "Ranks over data sets" in page
    assert "With 3 data sets and 4 methods, p cannot be below" in page
    assert "nothing here can be significant" in page
    assert (tmp_path / "report/figures/ranks.png").is_file()
    assert "diffpool-h,1.0" in (tmp_path / "report/tables/ranks.csv").read_text()


def test_data_sets_of_other_tables_are_in_the_head(make, made):
    searched = made(
        dataset="OTHER", mean=85, seeds=3, settings={"lr": 0.01, "folds": 4},
        candidates=({"lr": 0.01, "folds": 4}, {"lr": 0.02, "folds": 4}),
    )  # fmt: skip
    plain = [made(method=m, mean=70) for m in ("gpool-h", "random-h")]
    content = read_content(make(searched, *plain))
    assert headline.title(content) == "Graph pooling on MADE and OTHER"
    assert headline.scope(content).startswith("2 data sets · 3 methods · 3 seeds × 4 or 5 folds · ")
    *_, last = map(str, headline.sentences(content))
    assert last.startswith(
        "The highest mean of all on OTHER is in another table: <strong>SAGPool<sub>h</sub></strong>"
        " with searched settings"
    )


def test_methods_that_win_on_equally_many_data_sets_are_all_named(make, made):
    means = {"A": {"sagpool-h": 80, "gpool-h": 60}, "B": {"sagpool-h": 60, "gpool-h": 80}}
    cells = [made(d, m, mean) for d, of in means.items() for m, mean in of.items()]
    assert sentences(make(*cells)) == [
        "Among the hierarchical methods, <strong>gPool<sub>h</sub></strong> and "
        "<strong>SAGPool<sub>h</sub></strong> have the highest mean on 1 of 2 data sets each."
    ]


def test_the_lowest_error_of_all_tables_is_named(make, made):
    content = read_content(make(made(), made(method="gpool-h")))
    first, second = (
        replace(content.groups[0], cells=(cell,), differences=words)
        for cell, words in zip(content.shown, ((), ("5 folds",)), strict=True)
    )
    errors = {
        s.runs[0].key: CellScores(1, {"rmse": Spread(value, None, None, None)})
        for s, value in zip(content.shown, (2.0, 1.5), strict=True)
    }
    found = replace(content, regressions=[first, second], scores=errors)
    assert [str(one) for one in headline.sentences(found)][-2:] == [
        "<strong>gPool<sub>h</sub></strong> has the lowest RMSE on MADE: 2.",
        "The lowest RMSE of all on MADE is in another table: "
        "<strong>SAGPool<sub>h</sub></strong> with fixed settings and another protocol, 1.5.",
    ]


def test_a_diagram_of_the_data_sets_that_enough_methods_share(make, made):
    cells = [made(f"D{i}", m, seeds=1) for i in range(3) for m in ("sagpool-h", "gpool-h", "mine")]
    found = ranks.section(read_content(make(*cells, made("ALONE", seeds=1))))
    assert len(found.parts) == 2
    assert "Left out, since too few methods were run on all data sets: ALONE." in found.intro


def test_without_shared_data_sets_there_is_no_diagram(make, made):
    cells = [made(f"D{i}", f"m{(i + n) % 3}", seeds=1) for i in range(3) for n in range(2)]
    (part,) = ranks.section(read_content(make(*cells))).parts
    assert "it needs 3 methods that were run on the same 3 data sets" in part.html
