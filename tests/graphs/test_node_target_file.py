from dataclasses import replace

import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import load, pack, with_node_targets

HEAD = "graph,node,target\n"


@pytest.fixture(scope="module")
def two():
    """Graphs of 17 and 13 nodes."""
    return load("MUTAG")[:2]


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "scores.csv"
        path.write_text(text)
        return path

    return write


def test_nodes_have_the_targets_of_the_file(two, file):
    found = with_node_targets(two, file(f"{HEAD}1,2,0.5\n0,16,3\n"))
    assert {row: value for row, value in enumerate(found.node_target.tolist()) if value} == {
        16: 3, 17 + 2: 0.5,
    }  # fmt: skip
    assert found.fingerprint() != two.fingerprint()
    assert found[1].node_target.tolist() == found.node_target[17:].tolist()
    batch = pack(found, [[1], [0]])
    assert batch.node_target[2] == 0.5
    assert batch.node_target.view(2, -1)[1, 16] == 3
    assert batch.node_target.sum() == 3.5, "fillers have none"


def test_without_a_file_the_ground_truth_is_the_target(two):
    assert pack(two, [[0]]).node_target is None
    truth = torch.arange(two.num_nodes) % 2 == 0
    known = replace(two, ground_truth=truth)
    assert pack(known, [[0, 1]]).node_target[:-1].tolist() == truth.float().tolist()
    assert known.fingerprint() == two.fingerprint()


WRONG = {
    "": "must name the columns graph,node,target",
    "node,graph,target\n": "must name the columns graph,node,target, not 'node,graph,target'",
    HEAD: "has no row",
    HEAD + "0,1\n": "line 2 has 2 columns, not 3",
    HEAD + "2,0,1\n": "line 2: MUTAG has no graph '2'",
    HEAD + "0,17,1\n": "line 2: graph 0 has the nodes 0 to 16, no '17'",
    HEAD + "0,-1,1\n": "graph 0 has the nodes 0 to 16, no '-1'",
    HEAD + "0,1,1\n0,1,2\n": "line 3: node 1 of graph 0 has a row already",
    HEAD + "0,1,-1\n": "must be a number of at least 0: '-1'",
    HEAD + "0,1,nan\n": "must be a number of at least 0: 'nan'",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_gets_a_sentence(text, two, file):
    with pytest.raises(SagpoolError, match=WRONG[text]):
        with_node_targets(two, file(text))


def test_a_file_that_is_not_there_gets_a_sentence(two, tmp_path):
    with pytest.raises(SagpoolError, match=r"none\.csv cannot be read: No such file"):
        with_node_targets(two, tmp_path / "none.csv")
