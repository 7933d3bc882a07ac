from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import fixed_split, load, with_split

HEAD = "graph,part\n"


@pytest.fixture(scope="module")
def five():
    return replace(load("MUTAG")[:5], ids=None)


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "official.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def lines(*parts):
    return HEAD + "".join(f"{number},{part}\n" for number, part in enumerate(parts))


def test_graphs_have_the_parts_of_the_file(five, file):
    parts = ("later", "train", "train", "validation", "far")
    found = with_split(five, file(lines(*parts)))
    assert [found.part_names[number] for number in found.part] == list(parts)
    split = fixed_split(found.part.numpy(), found.part_names)
    assert (split.train.tolist(), split.validation.tolist()) == ([1, 2], [3])
    assert split.test.tolist() == [0], "the first test of the file"
    assert split.more_tests["far"].tolist() == [4]
    assert found.fingerprint() != five.fingerprint()
    other = with_split(five, file(lines("train", "later", "train", "validation", "far")))
    assert other.fingerprint() != found.fingerprint()


def test_the_main_test_is_the_one_of_this_name_or_the_first(five, file):
    parts = ("far", "train", "test", "validation", "near")
    found = with_split(five, file(lines(*parts)))
    assert [found.part_names[number] for number in found.part] == list(parts)
    split = fixed_split(found.part.numpy(), found.part_names)
    assert split.test.tolist() == [2]
    assert {name: graphs.tolist() for name, graphs in split.more_tests.items()} == {
        "far": [0],
        "near": [4],
    }


def test_a_split_whose_main_test_is_the_first_keeps_its_key(five, file):
    for parts in (
        ("train", "validation", "test", "far", "far"),
        ("b", "train", "validation", *"ab"),
    ):
        found = with_split(five, file(lines(*parts)))
        assert found.part_names == tuple(dict.fromkeys(parts))


def test_another_main_test_is_another_key(five, file):
    """A row that was stored when the first test was the main one is not taken for a new one."""
    found = with_split(five, file(lines("far", "train", "test", "validation", "far")))
    names = ("far", "train", "test", "validation")
    before = replace(found, part=torch.tensor([0, 1, 2, 3, 0]), part_names=names)
    assert found.fingerprint() != before.fingerprint()


def test_ids_may_stand_in_any_order(five, file):
    named = replace(five, ids=np.array(["a", "b", "c", "d", "e"]))
    text = "part,id\r\n" + "".join(
        f"{part},{name}\r\n"
        for name, part in zip("edcba", ("train",) * 3 + ("validation", "test"), strict=True)
    )
    found = with_split(named, file(text, "utf-8-sig"))
    assert found.part.tolist() == [2, 1, 0, 0, 0]
    assert found.part_names == ("train", "validation", "test")


WRONG = {
    "": "official.csv must name the columns graph",
    "graph;part\n0;train\n": "must name the columns graph .or id. and part, not 'graph;part'",
    "graph,part,fold\n": "must name the columns",
    HEAD + "0,train\n1\n": "line 3 has 1 columns, not 2",
    HEAD + "first,train\n": "line 2: 'first' is not the number of a graph",
    HEAD + "-1,train\n": "'-1' is not the number of a graph",
    HEAD + "5,train\n": "line 2: MUTAG has no graph '5'",
    HEAD + f"{'9' * 30},train\n": "MUTAG has no graph",
    HEAD + "0,train\n0,test\n": "line 3: graph '0' has a row already",
    HEAD + "0, \n": "line 2 names no part",
    HEAD + '0,"train\n': "line 2: unexpected end of data",
    HEAD + "0,train\n2,validation\n": "no row for 3 of the 5 graphs of MUTAG; the first is graph 1",
    lines(*["train"] * 5): "needs the parts train, validation and a test; validation and test is",
    "id,part\n0,train\n": "those of MUTAG have none; use the column graph",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_gets_a_sentence(text, five, file):
    with pytest.raises(SagpoolError, match=WRONG[text]):
        with_split(five, file(text))


def test_ids_must_be_known_and_different(five, file):
    path = file("id,part\nx,train\n")
    with pytest.raises(SagpoolError, match="MUTAG has no graph 'x'"):
        with_split(replace(five, ids=np.array(list("abcde"))), path)
    with pytest.raises(SagpoolError, match="graphs with the same id"):
        with_split(replace(five, ids=np.array(list("abcda"))), path)


def test_a_file_that_cannot_be_read_gets_a_sentence(five, tmp_path, file):
    with pytest.raises(SagpoolError, match=r"none\.csv cannot be read: No such file"):
        with_split(five, tmp_path / "none.csv")
    with pytest.raises(SagpoolError, match="it is not UTF-8 text"):
        with_split(five, file(lines("tést"), "latin-1"))


def test_a_column_with_many_names_is_no_part(file):
    graphs = load("MUTAG")
    with pytest.raises(SagpoolError, match="more than 50 different parts"):
        with_split(graphs, file(lines(*range(188))))
