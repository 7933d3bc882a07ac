"""How much room there is in a cluster, and the words for what is wrong with it."""

import pytest

from sagpool.bench.engines.cluster import Needs, choose_needs, describe, slots
from sagpool.errors import SagpoolError


def node(cpus, gpus=0, *, alive=True):
    kinds = {"accelerator_type:H200": 1.0} if gpus else {}
    return {"Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus), **kinds}}


@pytest.mark.parametrize(
    ("nodes", "device", "needs", "words"),
    [
        ([node(4), node(2)], "auto", Needs("cpu"), "Ray: 6 CPUs of 2 machines"),
        ([node(1), node(0)], "auto", Needs("cpu"), "Ray: 1 CPU of 1 machine"),
        ([node(9, 8), node(2)], "auto", Needs("cuda", gpus=1), "Ray: 8 GPUs (H200) of 1 machine"),
        ([node(9, 8), node(2)], "cpu", Needs("cpu"), "Ray: 11 CPUs of 2 machines"),
        ([node(1, 8)], "cuda", Needs("cuda", gpus=1), "Ray: 1 GPU (H200) of 1 machine"),
        ([node(4), node(4, 2, alive=False)], "auto", Needs("cpu"), "Ray: 4 CPUs of 1 machine"),
    ],
)
def test_workers_have_a_gpu_or_a_cpu_each(nodes, device, needs, words):
    assert choose_needs(device, nodes) == needs
    assert describe(nodes, needs) == words
    assert str(slots(nodes, needs)) in words


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda", "The Ray cluster has no GPU to train on."),
        ("cpu", "The Ray cluster has no CPU to train on."),
        ("auto", "The Ray cluster has no CPU to train on."),
        ("cuda:1", "With --engine ray, --device is auto, cpu or cuda, not 'cuda:1'."),
    ],
)
def test_what_is_not_there_is_told(device, words):
    with pytest.raises(SagpoolError) as told:
        choose_needs(device, [node(0)])
    assert str(told.value) == words
