"""Ctrl-C by real signals, at each point of a training."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import folio

pytestmark = pytest.mark.slow

# A program that trains, says "go" at the point that it is told, and then what became of it.
PROGRAM = """
import json, os, pathlib, signal, sys, threading, time
import folio
from folio import _show
text, out, point, signals = sys.argv[1:]
settings = dict(preset="stories", n_layer=2, n_head=2, n_embd=32, context=32, batch_size=4, max_steps=1000000)
go = lambda: print("go", flush=True)
hear = lambda: [os.kill(os.getpid(), signal.SIGINT) for _ in range(int(signals))]
on_step, during = None, []
if point == "preparing":
    _show.Live.progress = lambda *_: hear()
elif point == "step":
    on_step = lambda s: go() if s.step == 3 else None
elif point == "long step":
    settings |= dict(grad_accumulation=100000, eval_every=0)
    threading.Timer(1, go).start()
elif point == "evaluation":
    settings |= dict(eval_every=5, eval_batches=0, eval_stride=1, val_fraction=0.5, first_eval_batches=1)
    on_step = lambda s: go() if s.step == 4 else None
elif point == "first evaluation":
    settings |= dict(eval_every=5, eval_batches=0, eval_stride=1, val_fraction=0.5, first_eval_batches=0)
    def begun():
        while not os.path.exists(out):
            time.sleep(0.01)
        go()
    threading.Thread(target=begun).start()
elif point == "callback":
    on_step = lambda s: hear() if s.step == 3 else None
elif point == "saving":
    settings |= dict(max_steps=2, n_embd=256, n_layer=4, eval_every=0)
    last = pathlib.Path(out, "last")
    def watch():
        while not any(last not in p.parents for p in pathlib.Path(out).rglob("model.safetensors*")):
            time.sleep(0.0005)
        hear()
        during.append(not last.exists())
    threading.Thread(target=watch).start()
elif point == "own handler":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
    on_step = lambda s: go() if s.step == 3 else None
try:
    run = folio.train(text, out=out, on_step=on_step, **settings)
except KeyboardInterrupt:
    print(json.dumps({"raised": True, "there": os.path.exists(out)}))
else:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    words = run.model.generate("One", max_tokens=3, seed=1)
    told = {"steps": run.steps, "stopped": run.stopped, "shown": repr(run), "words": len(words.ids)}
    print(json.dumps(told | {"during": during}))
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text("".join(folio.stories(200)))
    return path


def _told(text: pathlib.Path, out: pathlib.Path, point: str, signals: int = 1) -> dict[str, object]:
    """What the program says when it was interrupted at a point, which must not take long."""
    words = [sys.executable, "-c", PROGRAM, str(text), str(out), point, str(signals)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            if point not in ("preparing", "callback", "saving"):
                assert child.stdout.readline() == "go\n"
                time.sleep(0.3)
                child.send_signal(signal.SIGINT)
            said = child.communicate(timeout=60)[0]
        finally:
            child.kill()
    if child.returncode != 0:
        return {"status": child.returncode}
    told: dict[str, object] = json.loads(said.splitlines()[-1])
    return told


@pytest.mark.parametrize("point", ["step", "long step", "evaluation", "first evaluation", "callback"])
def test_the_run_is_returned_as_far_as_it_came(text: pathlib.Path, tmp_path: pathlib.Path, point: str) -> None:
    if "evaluation" in point:  # which must still be going on when the signal comes, on a quick machine too
        long = tmp_path / "long.txt"
        long.write_text(text.read_text() * 8)
        text = long
    told = _told(text, tmp_path / "run", point)
    assert told["stopped"] and told["words"] == 3 and "stopped" in str(told["shown"])
    steps = told["steps"]
    assert isinstance(steps, int)
    expected = {"long step": steps == 0, "first evaluation": steps == 0, "evaluation": steps == 5, "callback": steps == 4}
    assert expected.get(point, steps >= 4), told
    # Nothing is lost: the run goes on from there, and says the same of itself when it is opened.
    assert folio.Run(tmp_path / "run").steps == steps
    goes_on: dict[str, Any] = {"max_steps": steps + 2, "eval_every": 0, "eval_batches": 1, "eval_stride": 0}
    goes_on |= {"grad_accumulation": 1} if point == "long step" else {}
    run = folio.Run(tmp_path / "run").resume(**goes_on)
    assert run.steps == steps + 2 and not run.stopped


def test_while_the_last_checkpoint_is_written(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    told = _told(text, tmp_path / "run", "saving")
    assert told["during"] == [True]
    assert told["steps"] == 2 and told["words"] == 3 and not told["stopped"]


def test_before_there_is_a_run(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert _told(text, tmp_path / "run", "preparing") == {"raised": True, "there": False}


def test_a_second_one_raises(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert _told(text, tmp_path / "run", "callback", signals=2) == {"raised": True, "there": True}
    assert folio.Run(tmp_path / "run").steps == 4


def test_a_handler_of_the_program_stays(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert _told(text, tmp_path / "run", "own handler") == {"status": 7}
    assert folio.Run(tmp_path / "run").steps >= 4


# One long call of each kind; a signal comes while it is made.
LONG = """
import sys, folio
model = folio.load(sys.argv[1], dtype="fp32")
text = "One day a fox. " * 200000
calls = {
    "encode": lambda: [model.encoding.encode_to_numpy(text * 10) for _ in range(1000)],
    "encode_batch": lambda: [model.encoding.encode_ordinary_batch([text] * 10) for _ in range(1000)],
    "generate": lambda: model.generate("One", max_tokens=10**9),
    "stream": lambda: list(model.stream("One", max_tokens=10**9)),
    "score": lambda: model.score(text),
    "eval": lambda: model.eval(iter([text]), progress=False),
    "prepare": lambda: [folio.Dataset.from_texts([text] * 20, tokenizer="char", progress=False) for _ in range(100)],
}
print("go", flush=True)
try:
    calls[sys.argv[2]]()
except KeyboardInterrupt:
    print(model.generate("One", max_tokens=3, seed=1) and "interrupted")
"""


@pytest.mark.parametrize("call", ["encode", "encode_batch", "generate", "stream", "score", "eval", "prepare"])
def test_long_calls_end_and_the_model_goes_on(text: pathlib.Path, tmp_path: pathlib.Path, call: str) -> None:
    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 32, "context": 32, "batch_size": 4}
    folio.train(text, out=tmp_path / "run", preset="stories", max_steps=2, progress=False, **sizes)
    words = [sys.executable, "-c", LONG, str(tmp_path / "run"), call]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "go\n"
            time.sleep(0.5)
            assert child.poll() is None, "the call was not long enough"
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=30)[0] == "interrupted\n"
        finally:
            child.kill()


def test_other_threads_hear_nothing(text: pathlib.Path) -> None:
    """On another thread than the main one, train leaves signals alone."""
    found: list[object] = []

    def train() -> None:
        handler = []
        folio.train(
            text,
            preset="stories",
            n_layer=1,
            n_head=1,
            n_embd=16,
            context=16,
            max_steps=2,
            on_step=lambda _: handler.append(signal.getsignal(signal.SIGINT)),
        )
        found.extend(handler)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler] * 2
