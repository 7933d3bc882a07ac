"""How far the host may be ahead of the device."""

from sagpool.fleet.launches import AHEAD, Launches


class FakeDevice:
    """In place of a GPU: notes what is launched, and what the host waits for."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.launched = self.events = 0

    def replay(self) -> None:
        self.launched += 1
        self.log.append(f"launch {self.launched}")

    def new_event(self) -> "FakeEvent":
        self.events += 1
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, device: FakeDevice) -> None:
        self.device = device

    def record(self) -> None:
        self.after = self.device.launched

    def synchronize(self) -> None:
        self.device.log.append(f"wait for {self.after}")


def test_a_launch_waits_until_few_passes_are_left():
    device = FakeDevice()
    launches = Launches(device.new_event)
    for _ in range(4):
        launches.launch(device.replay, AHEAD // 2)
    assert device.log == [
        *("launch 1", "launch 2"),
        *("wait for 1", "launch 3"),
        *("wait for 2", "launch 4"),
    ]
    assert device.events == 2, "events are used again"


def test_a_long_recording_waits_for_all_before_it():
    device = FakeDevice()
    launches = Launches(device.new_event)
    for passes in (1, 1, 2 * AHEAD, 1):
        launches.launch(device.replay, passes)
    assert device.log == [
        *("launch 1", "launch 2"),
        *("wait for 1", "wait for 2", "launch 3"),
        *("wait for 3", "launch 4"),
    ]
