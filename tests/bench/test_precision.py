import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.bench.precision import computing_in, precision_on
from sagpool.fleet import Training
from sagpool.fleet.checkpoint import identity_of

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "matmul"), [("float32", "highest"), ("tf32", "high"), ("bf16", "medium")]
)
def test_the_matmul_precision_is_set_and_restored(name, matmul):
    before = torch.get_float32_matmul_precision()

    def fail() -> None:
        with computing_in(name, GPU) as precision:
            assert torch.get_float32_matmul_precision() == matmul
            assert precision.dtype == torch.float32
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("name", ["tf32", "bf16"])
def test_a_cpu_is_refused(name):
    with pytest.raises(SagpoolError, match=f"{name} needs a GPU; on cpu use float32 or float64."):
        precision_on(name, CPU)


def test_a_checkpoint_is_not_continued_in_another_precision():
    graphs, trainings = load("MUTAG"), [Training("sagpool-h")]

    def identity(name: str) -> str:
        with computing_in(name, GPU) as precision:
            return identity_of(graphs, trainings, precision.dtype, lambda training: False)

    assert len({identity(name) for name in ("float32", "tf32", "bf16", "float64")}) == 4
