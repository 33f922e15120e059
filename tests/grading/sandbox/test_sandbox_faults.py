"""Faults that an engineer put into this room, each with the test that notices it."""

import json
import sys
from typing import Any

import pytest

from attnlib.check import MIME
from grading.sandbox import run as running
from grading.sandbox.inside import LEFT_OUT, Outputs
from grading.sandbox.run import STARTED, Job, ending, execute
from grading.sandbox.watch import Doubt, Limits, Watched, excess, watch


def test_more_processes_than_there_may_be_are_ended() -> None:
    limits = Limits(processes=2)
    assert excess([-1, -2, -3], 0, 0, limits) == ("crashed", "killed: more than 2 processes")
    assert excess([-1, -2], 0, 0, limits) is None


@pytest.mark.parametrize("line", [{"end": "graded", "reason": "x"}, {"end": ["finished"]}, [1], 5])
def test_an_ending_in_other_words_is_not_believed(line: Any) -> None:
    said = STARTED + b"\n" + json.dumps(line).encode()
    assert ending(Watched(said, "crashed", "a reason")) == ("crashed", "a reason")


def test_where_the_machines_memory_ran_out_it_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([3, 4])
    monkeypatch.setattr(running, "killed_for_memory", lambda: next(counts))
    monkeypatch.setattr(running, "fenced", lambda job: Watched(STARTED, "crashed", "ended"))
    with pytest.raises(Doubt, match="run out of memory"):
        execute(Job(()))


def test_a_kernel_that_never_answers_is_not_waited_for() -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    watched = watch(argv, {}, "", Limits(boot_seconds=0.5))
    assert (watched.status, watched.reason) == ("timed out", "no answer within 0.5 s")


def test_of_pictures_without_end_it_is_said_that_the_rest_is_left_out() -> None:
    outputs = Outputs(MIME)
    picture = {"data": {"image/png": "A" * (3 << 20)}}
    for _ in range(5):
        outputs.add({"msg_type": "display_data", "content": picture})
    assert outputs.kept[2:] == [LEFT_OUT]
