import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from foolsgold.records import text_key
from foolsgold.stores import scores as module
from foolsgold.stores.scores import ScoreStore


def key(query: str, document: str) -> tuple[bytes, bytes]:
    return text_key(query), text_key(document)


KEYS = [key("q1", "d1"), key("q1", "d2"), key("q2", "d1")]
SCORES = np.array([0.1, -3.5, 11.25], dtype=np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "scores.sqlite"


def test_scores_come_back_bit_for_bit_in_the_order_asked(path):
    ScoreStore(path).put("t", KEYS, SCORES)
    found = ScoreStore(path).get("t", KEYS[::-1])
    assert found.valid.all()
    np.testing.assert_array_equal(found.values, SCORES[::-1])
    assert found.values.dtype == np.float32


def test_what_was_never_scored_is_unknown(path):
    store = ScoreStore(path)
    store.put("t", KEYS[:1], SCORES[:1])
    assert store.get("t", [key("q1", "d9"), KEYS[0], key("d1", "q1")]).valid.tolist() == [False, True, False]


def test_another_teacher_s_scores_are_not_mixed_in(path):
    store = ScoreStore(path)
    store.put("a", KEYS, SCORES)
    store.put("b", KEYS[:1], SCORES[2:])
    assert not store.get("c", KEYS).valid.any()
    assert store.get("b", KEYS).valid.tolist() == [True, False, False]
    assert store.get("b", KEYS[:1]).values[0] == 11.25
    assert store.get("a", KEYS[:1]).values[0] == np.float32(0.1)


def test_a_score_put_twice_is_the_later_one(path):
    store = ScoreStore(path)
    store.put("t", KEYS[:1], SCORES[:1])
    store.put("t", KEYS[:1], SCORES[1:2])
    assert store.get("t", KEYS[:1]).values[0] == -3.5


def test_no_pairs_are_no_work(path):
    store = ScoreStore(path)
    store.put("t", [], np.empty(0, np.float32))
    assert len(store.get("t", [])) == 0


def test_a_hundred_thousand_look_ups_take_seconds_at_most(path):
    keys = [(n.to_bytes(16, "big"), (n * 7919).to_bytes(16, "big")) for n in range(100_000)]
    store = ScoreStore(path)
    store.put("t", keys, np.arange(100_000, dtype=np.float32))
    start = time.perf_counter()
    found = store.get("t", keys[::-1])
    assert time.perf_counter() - start < 10  # 0.6 s on a quiet machine
    np.testing.assert_array_equal(found.values, np.arange(100_000, dtype=np.float32)[::-1])


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be read as one" * 50, b"SQLite format 3\0junk"]
)
def test_a_broken_file_is_moved_aside_and_a_new_store_started(path, content, caplog):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    store = ScoreStore(path)
    store.put("t", KEYS, SCORES)
    assert store.get("t", KEYS).valid.all()
    assert (path.parent / "scores.sqlite.broken").read_bytes() == content
    assert "a new store is started" in caplog.text


def test_a_file_that_breaks_in_use_is_moved_aside_too(path, caplog):
    keys = [(n.to_bytes(16, "big"), b"d" * 16) for n in range(5_000)]
    store = ScoreStore(path)
    store.put("t", keys, np.zeros(5_000, np.float32))
    store.close()  # all pages are in the file now
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * (path.stat().st_size - 4096 * 3))
    store = ScoreStore(path)
    assert not store.get("t", keys).valid.all()
    store.put("t", KEYS, SCORES)
    assert store.get("t", KEYS).valid.all()
    assert "a new store is started" in caplog.text


def test_two_broken_files_are_both_kept(path):
    path.parent.mkdir(parents=True)
    for content in (b"first" * 100, b"second" * 100):
        path.write_bytes(content)
        ScoreStore(path).close()
    assert (path.parent / "scores.sqlite.broken").read_bytes() == b"first" * 100
    assert (path.parent / "scores.sqlite.broken-1").read_bytes() == b"second" * 100


def test_where_nothing_can_be_written_scores_stay_in_memory(tmp_path, caplog):
    (tmp_path / "file").write_text("a file where a folder is wanted")
    with caplog.at_level(logging.WARNING):
        store = ScoreStore(tmp_path / "file" / "scores.sqlite")
    store.put("t", KEYS, SCORES)
    assert store.get("t", KEYS).valid.all()
    assert "in memory" in caplog.text


UNPRIVILEGED = []  # root may write anywhere, unless it gives that up
if os.name == "posix" and os.geteuid() == 0:
    UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
needs_read_only = pytest.mark.skipif(
    os.name != "posix" or bool(UNPRIVILEGED and not shutil.which("setpriv")), reason="nothing is read-only for root"
)
USER = """
import logging, os, sys
import numpy as np
from pathlib import Path
from foolsgold.stores.scores import ScoreStore
logging.basicConfig(format="%(message)s")
store = ScoreStore(Path(sys.argv[1]))
for name in sys.argv[2:]:
    keys = [(part.encode().ljust(16), b"d" * 16) for part in name[1:].split(",")]
    if name[0] == "+":
        store.put("t", keys, np.arange(len(keys), dtype=np.float32) + 1)
    else:
        found = store.get("t", keys)
        print(np.where(found.valid, found.values, np.nan).tolist())
if name == "+kill":
    os._exit(0)
store.close()
"""


def use(path, *steps: str, prefix=()) -> tuple[list[str], str]:
    """What a process of its own found and warned of. +a,b puts scores 1 and 2 of a and b; ?a,b asks for them."""
    command = [*prefix, sys.executable, "-c", USER, str(path), *steps]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def made_read_only(folder) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cache").mkdir()
    yield tmp_path / "cache"
    (tmp_path / "cache").chmod(0o755)


@needs_read_only
def test_a_read_only_folder_without_a_store_means_memory(folder):
    folder.chmod(0o500)
    found, warned = use(folder / "scores.sqlite", "+a", "?a", prefix=UNPRIVILEGED)
    assert found == ["[1.0]"]
    assert "teacher scores are kept in memory only" in warned


@needs_read_only
@pytest.mark.parametrize("ended", ["+b", "+kill"])  # a killed run leaves its last scores in a file beside the store
def test_a_store_that_cannot_be_written_is_read_and_new_scores_stay_in_memory(folder, ended):
    path = folder / "scores.sqlite"
    use(path, "+x,a", ended)
    assert (folder / "scores.sqlite-wal").exists() == (ended == "+kill")
    made_read_only(folder)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    found, warned = use(path, "?a,new", "+new", "?a,new", "+a", "?a,new", prefix=UNPRIVILEGED)
    assert found == ["[2.0, nan]", "[2.0, 1.0]", "[1.0, 1.0]"]
    assert warned.count("scores are read from it, and new ones are kept in memory only") == 1
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".sqlite-shm"} == {
        name: content for name, content in files.items() if not name.endswith("-shm")
    }


@needs_read_only
def test_a_broken_store_that_cannot_be_moved_is_left_alone(folder):
    (folder / "scores.sqlite").write_bytes(b"no database" * 500)
    made_read_only(folder)
    found, warned = use(folder / "scores.sqlite", "?a", "+a", "?a", prefix=UNPRIVILEGED)
    assert found == ["[nan]", "[1.0]"]
    assert "teacher scores are kept in memory only" in warned
    assert "moved to" not in warned


def test_what_another_process_writes_while_it_is_read_without_locks_is_not_believed(path, monkeypatch, caplog):
    ScoreStore(path).put("t", KEYS, SCORES)
    monkeypatch.setattr("foolsgold.stores.scores._connect", refused_on_disk(module._connect))
    store = ScoreStore(path)
    assert store.get("t", KEYS).valid.all()
    find = module._find

    def while_written(*arguments) -> None:
        find(*arguments)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr("foolsgold.stores.scores._find", while_written)
    assert not store.get("t", KEYS).valid.any()
    assert "another process writes it" in caplog.text
    assert store.get("t", KEYS).valid.all()


def refused_on_disk(connect):
    """A disk that takes no writes."""

    def refusing(path):
        if path == ":memory:":
            return connect(path)
        raise sqlite3.OperationalError("attempt to write a readonly database")

    return refusing


def test_a_store_that_is_closed_by_mistake_is_not_taken_for_a_broken_file(path):
    store = ScoreStore(path)
    store.put("t", KEYS, SCORES)
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.get("t", KEYS)
    assert ScoreStore(path).get("t", KEYS).valid.all()


WRITER = """
import sys, numpy as np
from pathlib import Path
from foolsgold.stores.scores import ScoreStore
path, me, waves = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = ScoreStore(path)
for wave in range(waves):
    keys = [((me * 10**6 + wave * 100 + n).to_bytes(16, "big"), b"d" * 16) for n in range(100)]
    store.put("t", keys, np.full(100, me, np.float32))
    print(wave, flush=True)
"""


def writer(path, me: int, waves: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(me), str(waves)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(path, me: int, wave: int) -> bool:
    keys = [((me * 10**6 + wave * 100 + n).to_bytes(16, "big"), b"d" * 16) for n in range(100)]
    found = ScoreStore(path).get("t", keys)
    return bool(found.valid.all() and (found.values == me).all())


def test_processes_that_start_and_write_at_the_same_time_all_keep_their_scores(path):
    writers = [writer(path, me, 20) for me in range(4)]
    for process in writers:
        _, problems = process.communicate(timeout=60)
        assert process.returncode == 0, problems
        assert "memory" not in problems
    assert all(written(path, me, wave) for me in range(4) for wave in range(20))


def test_a_killed_run_keeps_every_wave_that_was_committed(path):
    process = writer(path, 1, 10**9)
    for _ in range(5):
        done = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert done == 4
    assert all(written(path, 1, wave) for wave in range(5))
