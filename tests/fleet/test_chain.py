"""Chains of CUDA graphs, with a driver that notes what it is asked for."""

import pytest
import torch

from sagpool.fleet import chain
from sagpool.fleet.chain import OUT_OF_MEMORY, Chain


class FakeDriver:
    """In place of CUDA's: gives every graph and node a number."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.failing: dict[str, int] = {}
        self.count = 100

    def __getattr__(self, name: str):
        def call(*arguments) -> int:
            values = [getattr(argument, "value", argument) for argument in arguments]
            if name in ("cuGraphCreate", "cuGraphAddChildGraphNode", "cuGraphInstantiateWithFlags"):
                self.count += 1
                arguments[0]._obj.value = self.count
                values[0] = self.count
            if name == "cuGraphAddChildGraphNode":
                values[2] = arguments[2]._obj.value
            self.calls.append((name, *values))
            return self.failing.get(name, 0)

        return call

    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]


class Link:
    def __init__(self, graph: int) -> None:
        self.graph = graph

    def raw_cuda_graph(self) -> int:
        return self.graph


@pytest.fixture
def driver(monkeypatch):
    made = FakeDriver()
    monkeypatch.setattr(chain, "_driver", lambda: made)
    return made


def test_each_link_waits_for_the_one_before(driver, monkeypatch):
    whole = Chain([Link(7), Link(8), Link(7)])
    nodes = [call[1:] for call in driver.calls if call[0] == "cuGraphAddChildGraphNode"]
    assert [recorded for *_, recorded in nodes] == [7, 8, 7]
    assert [before for _, _, before, _, _ in nodes] == [None, nodes[0][0], nodes[1][0]]
    assert [count for _, _, _, count, _ in nodes] == [0, 1, 1]
    assert driver.names()[-2:] == ["cuGraphInstantiateWithFlags", "cuGraphDestroy"]

    stream = type("Stream", (), {"cuda_stream": 5})
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    instantiated = driver.calls[-2][1]
    whole.replay()
    assert driver.calls[-1] == ("cuGraphLaunch", instantiated, 5)
    del whole
    assert driver.calls[-1] == ("cuGraphExecDestroy", instantiated)


@pytest.mark.parametrize(
    ("code", "error"), [(OUT_OF_MEMORY, torch.OutOfMemoryError), (1, RuntimeError)]
)
def test_what_was_made_before_an_error_is_destroyed(code, error, driver):
    driver.failing["cuGraphAddChildGraphNode"] = code
    with pytest.raises(error, match="cuGraphAddChildGraphNode"):
        Chain([Link(7)])
    assert driver.names()[-1] == "cuGraphDestroy"
    assert "cuGraphExecDestroy" not in driver.names()
