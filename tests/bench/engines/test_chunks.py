"""Chunks: no training is lost, and none is given up because of another one."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sagpool.bench.engines.chunks import ATTEMPTS, Chunk, Chunks


def test_chunks_are_equal_parts_of_one_group():
    chunks = Chunks([range(10), range(10, 12)])
    assert chunks.offer("a", 3, 0).numbers == (0, 1, 2, 3)
    assert chunks.offer("b", 3, 0).numbers == (4, 5, 6, 7)
    assert chunks.offer("c", 3, 0).numbers == (8, 9)
    assert chunks.offer("d", 4, 0).numbers == (10,), "one for each worker"
    assert chunks.waiting == 1
    assert chunks.unfinished == 12


def test_trainings_that_a_worker_does_not_accept_wait():
    chunks = Chunks([range(10)])
    chunks.offer("a", 1, 0)
    chunks.accept("a", 4)
    assert chunks.offer("b", 2, 0).numbers == (4, 5, 6)
    assert chunks.offer("c", 2, 0).numbers == (7, 8, 9)


def test_the_loss_of_a_machine_does_not_count_as_a_failure():
    chunks = Chunks([range(9)])
    for _ in range(2 * ATTEMPTS):
        assert chunks.offer("a", 1, 0).numbers == tuple(range(9))
        assert chunks.fail("a", blame=False) == ()


def test_a_failed_chunk_is_retried_in_smaller_chunks_then_one_by_one():
    chunks = Chunks([range(9)])
    assert chunks.offer("a", 1, 0).numbers == tuple(range(9))
    assert chunks.fail("a", blame=True) == ()
    assert [chunk.numbers for chunk in chunks.requeued] == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    chunks.offer("a", 1, 0)
    assert chunks.fail("a", blame=True) == ()
    assert [chunk.numbers for chunk in chunks.requeued][2:] == [(0,), (1,), (2,)]
    for _ in range(2):
        chunks.offer("b", 1, 0)
        for number in chunks.assigned["b"].chunk.numbers:
            chunks.finish("b", number)
        chunks.end("b")
    assert chunks.offer("a", 1, 0).numbers == (0,)
    assert chunks.fail("a", blame=True) == (0,)
    assert chunks.unfinished == 2


def test_a_failed_chunk_is_retried_on_another_node_first():
    chunks = Chunks([[0]])
    chunks.offer("a", 2, 0, "here", {"here", "there"})
    chunks.fail("a", blame=True, node="here")
    assert chunks.offer("a", 2, 0, "here", {"here", "there"}) is None
    assert chunks.offer("b", 2, 0, "there", {"here", "there"}).numbers == (0,)
    chunks.fail("b", blame=False)
    assert chunks.offer("a", 1, 0, "here", {"here"}).numbers == (0,), "there is no other node"


def test_a_straggler_is_split_once_after_a_while():
    chunks = Chunks([range(8)])
    chunks.offer("slow", 2, now=0)
    chunks.offer("quick", 2, now=0)
    assert chunks.straggler(now=10, seconds=10) is None, "no worker has begun"
    chunks.accept("slow", 4)
    chunks.accept("quick", 4)
    assert chunks.straggler(now=9, seconds=10) is None
    for number in range(4, 8):
        chunks.finish("quick", number)
    chunks.end("quick")
    assert chunks.straggler(now=10, seconds=10) == "slow"
    assert chunks.straggler(now=10, seconds=10) is None
    chunks.finish("slow", 1)
    chunks.end("slow", [Chunk((0, 3), b"state"), Chunk((2,), b"other")])
    assert chunks.offer("quick", 2, 10) == Chunk((0, 3), b"state")
    assert chunks.straggler(now=99, seconds=10) is None, "a chunk still waits"


def test_a_single_training_is_not_split():
    chunks = Chunks([[0]])
    chunks.offer("a", 1, 0)
    chunks.accept("a", 1)
    assert chunks.straggler(now=99, seconds=10) is None


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sets(st.integers(0, 159), max_size=3),
    st.integers(0, 2**32),
)
def test_every_training_is_finished_or_given_up_exactly_once(
    sizes: list[int], workers: int, poison: set[int], seed: int
):
    """Workers die, accept only part of a chunk, and are split, at random."""
    draws, nodes = random.Random(seed), {str(worker % 2) for worker in range(workers)}
    total = sum(sizes)
    numbers = iter(range(total))
    chunks = Chunks([[next(numbers) for _ in range(size)] for size in sizes])
    done, given_up, now = [], [], 0.0
    while chunks.unfinished or chunks.assigned:
        now += 1
        for worker in range(workers):
            if worker not in chunks.assigned:
                chunk = chunks.offer(worker, workers, now, str(worker % 2), nodes)
                if chunk and chunk.state is None and draws.random() < 0.5:
                    chunks.accept(worker, draws.randint(1, len(chunk.numbers)))
                continue
            left = chunks.assigned[worker].unfinished
            sick = sorted(left & poison)
            if sick and draws.random() < 0.5:
                given_up += chunks.fail(worker, blame=True, node=str(worker % 2))
            elif draws.random() < 0.1:
                chunks.fail(worker, blame=False)
            elif not left:
                chunks.end(worker)
            elif (healthy := sorted(left - poison)) and draws.random() < 0.7:
                chunks.finish(worker, healthy[0])
                done.append(healthy[0])
        if draws.random() < 0.3 and (slow := chunks.straggler(now, 3)) is not None:
            left = sorted(chunks.assigned[slow].unfinished)
            chunks.end(slow, [Chunk(tuple(left[::2]), b"1"), Chunk(tuple(left[1::2]), b"2")])
    assert sorted(done) == sorted(set(range(total)) - poison)
    assert sorted(given_up) == sorted(poison & set(range(total)))
