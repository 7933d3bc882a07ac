"""A Ray cluster of several nodes on this machine, and a watcher that records what it is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from sagpool.bench.engines import Job
from sagpool.bench.engines.cluster import connected
from sagpool.bench.engines.engine import Outcome
from sagpool.fleet import Progress
from sagpool.fleet.train import train_until

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each; the driver is on the first."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        # Otherwise Ray takes half a minute to notice that a machine is gone.
        health = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 5000,
            "health_check_failure_threshold": 3,
        }
        # Processes that take seconds to start, and that nothing here asks for anything.
        without = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        head = {**NODE, **without, "_system_config": health}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            made.add_node(**NODE)
            with connected(made.address):
                yield made
        finally:
            made.shutdown()


@pytest.fixture
def add_node(cluster):
    return lambda: cluster.add_node(**NODE)


@pytest.fixture(scope="module")
def shared_engine(cluster, tmp_path_factory):
    """Its workers train with the function that is pickled in ``train_file`` at that time."""
    from ray import cloudpickle

    from sagpool.bench.engines.on_ray import Ray

    file = tmp_path_factory.mktemp("engine") / "train"

    def train(*arguments, **options):
        return cloudpickle.loads(file.read_bytes())(*arguments, **options)

    made = Ray(split_seconds=0, train=train)
    made.train_file = file
    return made


@pytest.fixture
def engine(shared_engine):
    """``engine(train=...)`` is an engine whose workers call that function.

    Tests share its workers, which take seconds to start. With ``new`` they are started anew.
    """
    from ray import cloudpickle

    def make(train=train_until, *, new=False):
        shared_engine.train_file.write_bytes(cloudpickle.dumps(train))
        for worker in list(shared_engine.pool.workers) if new else ():
            shared_engine.pool.drop(worker)
        return shared_engine

    return make


@pytest.fixture
def assert_equal():
    """Rows by key: floats to 1e-9, all else exactly."""

    def check(ours, theirs):
        assert ours.keys() == theirs.keys()
        for key, row in ours.items():
            for name, value in row.items():
                if isinstance(value, float):
                    assert value == pytest.approx(theirs[key][name], rel=1e-9, nan_ok=True), name
                else:
                    assert value == theirs[key][name], name

    return check


@dataclass(eq=False)
class RecordingWatcher:
    """``follow`` returns the jobs that follow a job."""

    follow: Callable[[Job], Sequence[Job]] = lambda job: ()
    outcomes: list[tuple[Job, Outcome]] = field(default_factory=list)
    reports: list[tuple[Job, Progress]] = field(default_factory=list)
    order: list[tuple[str, Job]] = field(default_factory=list)  # of outcomes and ends

    def outcome(self, job: Job, outcome: Outcome) -> None:
        self.outcomes.append((job, outcome))
        self.order.append(("outcome", job))

    def progress(self, job: Job, progress: Progress) -> None:
        self.reports.append((job, progress))

    def ended(self, job: Job, problem: str) -> Sequence[Job]:
        assert problem == ""
        self.order.append(("end", job))
        return self.follow(job)

    def of(self, job: Job) -> list[Outcome]:
        """Its outcomes."""
        return [outcome for told, outcome in self.outcomes if told is job]

    def last(self, job: Job) -> Progress:
        return [progress for told, progress in self.reports if told is job][-1]


@pytest.fixture
def watching():
    return RecordingWatcher
