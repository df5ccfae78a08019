import threading

import pytest

from foolsgold.models.batches import length_batches, run_in_threads


def test_batches_go_from_long_to_short_and_hold_their_bounds():
    batches = [rows.tolist() for rows in length_batches([3, 9, 1, 9, 2, 50], size=3, max_tokens=20)]
    assert batches == [[5], [1, 3], [0, 4, 2]]  # 50 alone; 2 x 9; the rest


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_outputs_come_in_the_order_of_the_batches_whichever_ends_first(threads):
    others_done = threading.Event()

    def run(batch: int) -> int:
        if batch == 0 and threads > 1:
            others_done.wait(10)  # the first ends only after the second
        if batch == 1:
            others_done.set()
        return batch * batch

    assert list(run_in_threads(run, range(20), threads=threads)) == [(n, n * n) for n in range(20)]


def test_batches_are_read_in_the_calling_thread_and_only_a_few_ahead():
    read_by = []

    def batches():
        for n in range(1000):
            read_by.append(threading.current_thread())
            yield n

    running = run_in_threads(lambda batch: batch, batches(), threads=2)
    next(running)
    assert len(read_by) <= 5
    assert set(read_by) == {threading.current_thread()}
    running.close()


def test_an_error_reaches_the_caller_and_no_further_batch_is_read():
    read = []

    def batches():
        for n in range(1000):
            read.append(n)
            yield n

    def run(batch: int) -> int:
        if batch == 2:
            raise KeyError("planted")
        return batch

    running = run_in_threads(run, batches(), threads=2)
    assert [next(running), next(running)] == [(0, 0), (1, 1)]
    with pytest.raises(KeyError, match="planted"):
        next(running)
    assert len(read) < 10


def test_each_thread_starts_once_before_its_first_batch():
    local = threading.local()

    def start() -> None:
        local.started = getattr(local, "started", 0) + 1

    assert {output for _, output in run_in_threads(lambda _: local.started, range(20), threads=3, on_start=start)} == {
        1
    }
