"""Graphs unlike the training data on the page, in Chromium if it is installed."""

from dataclasses import replace

from sagpool.explain.explained import Explained
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer import write_explorer

UNLIKE = (2, 5)  # numbers of graphs


def test_they_are_marked_and_can_be_filtered(open_page, explained: Explained, tmp_path):
    traces = tuple(replace(one, unlike=one.number in UNLIKE) for one in explained.traces)
    flagged = replace(explained, traces=traces)
    file = write_explorer(flagged, OutputFolder(tmp_path, "explain"))
    here = open_page(graph="#5", file=file)
    page, titles = here.page, {trace.title for trace in traces if trace.unlike}
    assert here.text(".warning >> nth=0").startswith("2 of 7 graphs are unlike the training data")
    marked = page.locator(".row", has_text="unlike training data").locator(".name")
    assert set(marked.all_inner_texts()) == titles
    assert "unlike the training data" in here.text("#told")
    page.locator("#unlike").select_option("unlike")
    assert set(here.names) == titles
    page.locator("#unlike").select_option("like")
    assert set(here.names) == {trace.title for trace in traces} - titles
    page.locator(".row").first.click()
    assert "unlike" not in here.text("#told")
    page.locator("#reset").click()
    assert len(here.names) == 7
    assert here.nameless == []
    assert here.complaints == []


def test_without_them_there_is_no_filter(open_page, explained: Explained, tmp_path):
    file = write_explorer(explained, OutputFolder(tmp_path, "explain"))
    here = open_page(file=file)
    assert not here.page.locator("#unlike-field").is_visible()
    assert "unlike" not in here.text("body")
