"""What several threads, and processes that are forked, do with one object: all waits its turn or is an error, and
nothing hangs or ends the interpreter."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import folio

TINY: dict[str, Any] = {"preset": "debug"}
IDS = np.arange(2000) % 50


def _together(*calls: Callable[[], object]) -> list[BaseException]:
    """Runs each on a thread of its own; what they raised."""
    raised: list[BaseException] = []

    def guarded(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def _in_child(call: Callable[[], object]) -> str:
    """What a forked child says of a call: its result, or the error; "signal 14" where it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            said = str(call())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> folio.Model:
    sizes: dict[str, Any] = {"preset": "stories", "n_layer": 4, "n_head": 4, "n_embd": 64, "context": 64, "batch_size": 2}
    out = tmp_path_factory.mktemp("run") / "run"
    folio.train(iter(folio.stories(40)), out=out, max_steps=1, progress=False, **sizes)
    return folio.load(out, dtype="fp32")


@pytest.mark.slow
def test_threads_of_a_trainer_wait_for_each_other(tmp_path: pathlib.Path) -> None:
    """In a program of its own: what is wrong here ends the interpreter."""
    program = f"""
import folio, numpy as np, threading
trainer = folio.Trainer(np.arange(2000) % 50, preset="debug")
def save(): trainer.save({str(tmp_path / "saved")!r})
def model(): trainer.model.logits([1, 2])
raised = []
def often(call, times):
    try:
        for _ in range(times): call()
    except BaseException as error:
        raised.append(error)
calls = [(trainer.step, 200), (trainer.step, 200), (trainer.evaluate, 100), (save, 5), (model, 20)]
threads = [threading.Thread(target=often, args=call) for call in calls]
[t.start() for t in threads]; [t.join() for t in threads]
assert not raised, raised
print(trainer.step().step)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr


@pytest.mark.slow
def test_threads_share_a_stream_and_an_encoding(model: folio.Model) -> None:
    greedy: dict[str, Any] = {"max_tokens": 100, "temperature": 0}
    for _ in range(3):
        stream = model.stream("One", **greedy)
        pieces: list[str] = []
        assert _together(*[lambda: pieces.extend(stream)] * 3) == []
        assert sorted("".join(pieces)) == sorted(model.generate("One", **greedy))
    stream = model.stream("One", max_tokens=10**6)

    def close() -> None:
        next(stream)
        time.sleep(0.1)
        stream.close()

    assert _together(lambda: list(stream), close) == []


@pytest.mark.slow
def test_other_threads_of_python_go_on(model: folio.Model) -> None:
    text = "One day a fox. " * 2000
    begun = time.monotonic()
    scoring = threading.Thread(target=lambda: model.score(text, top=0))  # one call
    scoring.start()
    rounds = 0
    while scoring.is_alive():
        time.sleep(0.001)
        rounds += 1
    took = time.monotonic() - begun
    assert rounds > 10 * took and rounds > 3, (rounds, took)


@pytest.mark.slow
def test_a_child_forked_while_a_thread_computes(model: folio.Model) -> None:
    expected = model.logits([1, 2, 3]).tolist()
    encoding = model.encoding
    assert encoding is not None
    text = "One day a fox. " * 3
    ids = encoding.encode(text)
    done = threading.Event()

    def often(call: Callable[[], object]) -> threading.Thread:
        def calls() -> None:
            while not done.is_set():
                call()

        thread = threading.Thread(target=calls)
        thread.start()
        return thread

    others = [often(lambda: model.logits([1, 2, 3] * 20)), often(lambda: encoding.encode(text * 200))]
    try:
        for _ in range(15):
            time.sleep(0.005)
            assert _in_child(lambda: model.logits([1, 2, 3]).tolist() == expected) == "True"
            assert _in_child(lambda: encoding.encode(text) == ids) == "True"
            assert _in_child(lambda: len(model.generate("One", max_tokens=3).ids)) == "3"
    finally:
        done.set()
        for other in others:
            other.join()


@pytest.mark.slow
def test_a_child_forked_while_a_thread_trains() -> None:
    trainer = folio.Trainer(IDS, **TINY)
    # The parent's step is over, and the child goes on.
    trainer.step()
    assert _in_child(lambda: trainer.step().step) == "1"
    done = threading.Event()

    def train() -> None:
        while not done.is_set():
            trainer.step()

    other = threading.Thread(target=train)
    other.start()
    try:
        found = set()
        for _ in range(60):
            time.sleep(0.001)
            found.add(_in_child(lambda: trainer.step() and "went on").partition("\n")[0])
    finally:
        done.set()
        other.join()
    lost = "UsageError: trainer: this process was forked while another thread was using it"
    assert found <= {"went on", f"{lost}: its state is incomplete in this process"} and len(found) > 0, found


@pytest.mark.slow
def test_children_end_as_all_processes_do(model: folio.Model) -> None:
    """By the interpreter's own end, also where the parent had threads that compute."""
    program = f"""
import folio, os
model = folio.load({model.path!r})
model.logits([1] * 16)
child = os.fork()
if child:
    raise SystemExit(os.waitpid(child, 0)[1])
model.logits([1] * 16)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_members_that_another_thread_computes_in_a_child() -> None:
    from folio._lazy import lazy

    held, done = threading.Event(), threading.Event()
    parent = os.getpid()

    class Thing:
        @lazy
        def member(self) -> str:
            if os.getpid() == parent:
                held.set()
                done.wait()
            return "computed"

    thing = Thing()
    other = threading.Thread(target=lambda: thing.member)
    other.start()
    held.wait()
    try:
        assert _in_child(lambda: thing.member) == "computed"
    finally:
        done.set()
        other.join()
    assert thing.member == "computed" and vars(thing) == {"member": "computed"}


@pytest.mark.slow
def test_get_encoding_in_a_child() -> None:
    from folio import encoding

    with encoding._LOCK:  # of this thread, which is in the child
        assert _in_child(lambda: folio.list_encoding_names()[0]) == "gpt2"
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with encoding._LOCK:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    try:
        assert "no encoding 'nobody'" in _in_child(lambda: folio.get_encoding("nobody"))
    finally:
        done.set()
        other.join()
