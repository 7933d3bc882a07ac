"""Chunks: no training is lost, and none is given up because of another one."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sagpool.bench.engines.chunks import ATTEMPTS, Chunk, Chunks


def chunks_of(*groups):
    """Of one job."""
    made = Chunks()
    made.add(0, groups)
    return made


def test_chunks_are_equal_parts_of_one_group():
    chunks = chunks_of(range(10), range(10, 12))
    assert chunks.offer("a", 3, 0).numbers == (0, 1, 2, 3)
    assert chunks.offer("b", 3, 0).numbers == (4, 5, 6, 7)
    assert chunks.offer("c", 3, 0).numbers == (8, 9)
    assert chunks.offer("d", 4, 0).numbers == (10,), "one for each worker"
    assert chunks.waiting == 1
    assert chunks.unfinished == {0: 12}


def test_trainings_that_a_worker_does_not_accept_wait():
    chunks = chunks_of(range(10))
    chunks.offer("a", 1, 0)
    chunks.accept("a", 4)
    assert chunks.offer("b", 2, 0).numbers == (4, 5, 6)
    assert chunks.offer("c", 2, 0).numbers == (7, 8, 9)


def test_the_loss_of_a_machine_does_not_count_as_a_failure():
    chunks = chunks_of(range(9))
    for _ in range(2 * ATTEMPTS):
        assert chunks.offer("a", 1, 0).numbers == tuple(range(9))
        assert chunks.fail("a", blame=False) == ()


def test_a_failed_chunk_is_retried_in_smaller_chunks_then_one_by_one():
    chunks = chunks_of(range(9))
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
    assert chunks.unfinished == {0: 2}


def test_a_failed_chunk_is_retried_on_another_node_first():
    chunks = chunks_of([0])
    chunks.offer("a", 2, 0, "here", {"here", "there"})
    chunks.fail("a", blame=True, node="here")
    assert chunks.offer("a", 2, 0, "here", {"here", "there"}) is None
    assert chunks.offer("b", 2, 0, "there", {"here", "there"}).numbers == (0,)
    chunks.fail("b", blame=False)
    assert chunks.offer("a", 1, 0, "here", {"here"}).numbers == (0,), "there is no other node"


def test_a_straggler_is_split_once_after_a_while():
    chunks = chunks_of(range(8))
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
    chunks.end("slow", [(0, 3), (2,)])
    assert chunks.offer("quick", 2, 10) == Chunk(0, (0, 3))
    assert chunks.straggler(now=99, seconds=10) is None, "a chunk still waits"


def test_a_single_training_is_not_split():
    chunks = chunks_of([0])
    chunks.offer("a", 1, 0)
    chunks.accept("a", 1)
    assert chunks.straggler(now=99, seconds=10) is None


def test_earlier_jobs_come_first_and_a_chunk_has_one_job():
    chunks = Chunks()
    chunks.add(7, [range(3)])
    chunks.add(8, [range(2), range(2, 5)])
    assert chunks.offer("a", 2, 0) == Chunk(7, (0, 1, 2))
    assert chunks.offer("b", 2, 0) == Chunk(8, (0, 1))
    chunks.accept("a", 1)
    assert chunks.offer("c", 1, 0) == Chunk(7, (1, 2))
    assert chunks.unfinished == {7: 3, 8: 5}


def test_a_job_that_is_added_is_divided_anew():
    chunks = chunks_of(range(2))
    assert len(chunks.offer("a", 2, 0).numbers) == 1
    chunks.add(1, [range(9)])
    assert chunks.offer("b", 2, 0) == Chunk(0, (1,))
    assert chunks.offer("c", 2, 0) == Chunk(1, tuple(range(5))), "half of what waits"


def test_a_job_has_ended_when_its_workers_are_idle():
    chunks = chunks_of([0])
    chunks.add(1, [])
    chunks.add(2, [[0]])
    assert chunks.remove_ended() == [1], "there was nothing to do"
    chunks.offer("a", 1, 0)
    chunks.offer("b", 1, 0)
    chunks.finish("a", 0)
    assert chunks.remove_ended() == []
    chunks.end("a")
    assert chunks.remove_ended() == [0]
    assert chunks.remove_ended() == []
    assert chunks.unfinished == {2: 1}


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sets(st.integers(0, 159), max_size=3),
    st.integers(0, 2**32),
)
def test_every_training_is_finished_or_given_up_exactly_once(
    sizes: list[int], workers: int, poison: set[int], seed: int
):
    """Workers die, accept only part of a chunk, and are split, at random; jobs follow others."""
    draws, nodes = random.Random(seed), {str(worker % 2) for worker in range(workers)}
    total = sum(sizes)
    numbers = iter(range(total))
    groups = [[next(numbers) for _ in range(size)] for size in sizes]
    job_of = {number: job for job, group in enumerate(groups) for number in group}
    chunks = Chunks()
    chunks.add(0, groups[:1])
    done, given_up, now, ended = [], [], 0.0, []
    while chunks.unfinished:
        for job in chunks.remove_ended():
            ended.append(job)
            if job + 1 < len(groups):
                chunks.add(job + 1, [groups[job + 1]])
        now += 1
        for worker in range(workers):
            if worker not in chunks.assigned:
                chunk = chunks.offer(worker, workers, now, str(worker % 2), nodes)
                assert chunk is None or {job_of[one] for one in chunk.numbers} == {chunk.job}
                if chunk and draws.random() < 0.5:
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
            chunks.end(slow, [tuple(left[::2]), tuple(left[1::2])])
    assert sorted(done) == sorted(set(range(total)) - poison)
    assert sorted(given_up) == sorted(poison & set(range(total)))
    assert ended == list(range(len(sizes)))
