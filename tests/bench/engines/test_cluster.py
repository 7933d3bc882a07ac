"""How many workers fit into a cluster, and errors about missing resources."""

import pytest

from sagpool.bench.engines.cluster import WorkerResources, choose_resources, describe, slots
from sagpool.errors import SagpoolError


def node(cpus, gpus=0, *, alive=True):
    kinds = {"accelerator_type:H200": 1.0} if gpus else {}
    return {"Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus), **kinds}}


@pytest.mark.parametrize(
    ("nodes", "device", "resources", "words"),
    [
        ([node(4), node(2)], "auto", WorkerResources("cpu"), "Ray: 6 CPUs on 2 machines"),
        ([node(1), node(0)], "auto", WorkerResources("cpu"), "Ray: 1 CPU on 1 machine"),
        (
            [node(9, 8), node(2)],
            "auto",
            WorkerResources("cuda", gpus=1),
            "Ray: 8 GPUs (H200) on 1 machine",
        ),
        ([node(9, 8), node(2)], "cpu", WorkerResources("cpu"), "Ray: 11 CPUs on 2 machines"),
        ([node(1, 8)], "cuda", WorkerResources("cuda", gpus=1), "Ray: 1 GPU (H200) on 1 machine"),
        (
            [node(4), node(4, 2, alive=False)],
            "auto",
            WorkerResources("cpu"),
            "Ray: 4 CPUs on 1 machine",
        ),
    ],
)
def test_workers_have_a_gpu_or_a_cpu_each(nodes, device, resources, words):
    assert choose_resources(device, nodes) == resources
    assert describe(nodes, resources) == words
    assert str(slots(nodes, resources)) in words


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda", "The Ray cluster has no GPU to train on."),
        ("cpu", "The Ray cluster has no CPU to train on."),
        ("auto", "The Ray cluster has no CPU to train on."),
        ("cuda:1", "With Ray, the device must be auto, cpu or cuda, not 'cuda:1'."),
    ],
)
def test_missing_resources_are_an_error(device, words):
    with pytest.raises(SagpoolError) as raised:
        choose_resources(device, [node(0)])
    assert str(raised.value) == words
