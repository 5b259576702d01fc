"""What TensorBoard is given: speeds, waiting, progress, memory, read back from the events."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from command_line import arguments, save_checkpoint, write_questions

from mlm_consistency.cli.main import main
from mlm_consistency.cli.processes import Processes
from mlm_consistency.cli.run_log import (
    GIB,
    Capacity,
    RunLog,
    Searched,
    Speeds,
    memory,
    summary_line,
)
from mlm_consistency.cli.score import events_folder
from mlm_consistency.cli.settings import ScoreConfig
from mlm_consistency.scoring.loop import LoopTimes

QUESTIONS = 22


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> (step, value) of each point, over all files in order of their making."""
    tf = pytest.importorskip("tensorflow")
    found: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.iterdir()):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                point = (event.step, float(tf.make_ndarray(value.tensor)))
                found.setdefault(value.tag, []).append(point)
    return found


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_run_writes_points_and_a_summary(tmp_path, capsys):
    write_questions(tmp_path / "questions.jsonl", QUESTIONS)
    save_checkpoint(tmp_path / "checkpoint")
    assert main(["score", *arguments(tmp_path)]) == 0
    found = events(tmp_path / "run" / "logs")
    assert found["progress/examples"][-1] == (QUESTIONS, QUESTIONS)
    assert found["progress/share"][-1] == (QUESTIONS, 1.0)
    for name in ("speed/examples_per_second", "speed/tokens_per_second", "memory/host_gib"):
        assert found[name][-1][1] > 0
    for name in ("waiting/input_share", "waiting/device_share"):
        assert all(0 <= share <= 1 for _, share in found[name])
    ((step, speed),) = found["summary/examples_per_second"]
    assert step == QUESTIONS
    assert speed > 0
    assert "speed/share_of_peak" not in found, "a CPU's peak is not known"
    assert " examples/s, " in capsys.readouterr().err

    once_more = arguments(tmp_path, OUTPUT_DIR=tmp_path / "quiet", TENSORBOARD=False)
    assert main(["score", *once_more]) == 0
    assert not (tmp_path / "quiet" / "logs").exists()


def test_only_process_0_writes():
    config = ScoreConfig((), (), "c", "v", "gs://bucket/run")
    assert events_folder(config, Processes(0, 2)) == "gs://bucket/run/logs"
    assert events_folder(config, Processes(1, 2)) is None


def test_speeds_are_those_since_the_point_before_and_of_all_lanes(clock):
    times = LoopTimes()
    speeds = Speeds(times, Capacity(lanes=4, step_flops=3e12, peak_flops=1e12), clock)
    times.steps, times.examples, times.encoder_tokens, times.decoder_tokens = 2, 10, 300, 100
    times.waiting_for_input, times.waiting_for_device = 1.0, 6.0
    clock.now += 20
    first = speeds.since_last()
    assert first == pytest.approx({
        "speed/examples_per_second": 2.0, "speed/tokens_per_second": 80.0,
        "speed/share_of_peak": 0.3, "waiting/input_share": 0.05, "waiting/device_share": 0.3,
    })  # fmt: skip
    times.steps, times.examples = 4, 20
    clock.now += 10
    second = speeds.since_last()
    assert second["speed/share_of_peak"] == pytest.approx(0.6)
    assert second["waiting/input_share"] == 0
    assert speeds.since_start()["speed/share_of_peak"] == pytest.approx(0.4)
    line = summary_line(speeds, 0.5, 40.0)
    assert "2.7 examples/s, 53 tokens/s, 40.0% of the peak; 40.0 s in all" in line


def test_points_come_every_few_seconds_and_at_the_end(clock, tmp_path):
    speeds = Speeds(LoopTimes(), Capacity(), clock)
    with RunLog(str(tmp_path), speeds, total=50, done=8) as run_log:
        for seconds, done in ((1, 10), (5, 20), (1, 30), (5, 40), (1, 50)):
            clock.now += seconds
            run_log.point(done)
    found = events(tmp_path)
    assert [step for step, _ in found["progress/share"]] == [20, 40, 50]
    assert [step for step, _ in found["summary/tokens_per_second"]] == [50]
    with RunLog(str(tmp_path), speeds, total=60, done=50):
        pass  # stopped before its first shard
    assert [step for step, _ in events(tmp_path)["summary/tokens_per_second"]] == [50, 50]


def test_a_search_has_names_of_its_own_and_no_more_than_it_counts(clock, tmp_path):
    searched = Searched()
    speeds = Speeds(searched, Capacity(lanes=2), clock)
    with RunLog(str(tmp_path), speeds, total=20, part="search_") as run_log:
        searched.examples, clock.now = 10, clock.now + 5
        run_log.point(20)
    found = events(tmp_path)
    assert found["search_speed/examples_per_second"] == [(20, 4.0)]
    assert found["search_summary/examples_per_second"] == [(20, 4.0)]
    assert not any("tokens" in name or "waiting" in name for name in found)


def test_memory_is_that_of_devices_that_say_so():
    class Device:
        def __init__(self, stats):
            self.stats = stats

        def memory_stats(self):
            return self.stats

    found = memory([Device({"bytes_in_use": 3 * GIB}), Device(None)])
    assert found.pop("memory/device_0_gib") == 3
    assert set(found) <= {"memory/host_gib"}


def test_logs_that_cannot_be_written_are_said_once_and_end_nothing(clock, tmp_path, caplog):
    (tmp_path / "logs").write_text("a file where the folder should be")
    speeds = Speeds(LoopTimes(), Capacity(), clock)
    with (
        caplog.at_level(logging.WARNING),
        RunLog(str(tmp_path / "logs"), speeds, total=2) as run_log,
    ):
        run_log.point(1)
        run_log.point(2)
    assert caplog.text.count("no events for TensorBoard in") == 1
