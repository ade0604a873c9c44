"""What is shown while something takes long: a line in a terminal, a line and a curve in a notebook."""

from __future__ import annotations

import contextlib
import importlib
import math
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import _core


def in_notebook() -> bool:
    """Whether what is displayed is seen by somebody: in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def fitting(svg: str) -> str:
    """The figure for a page: as large as it is, or as there is room."""
    begin = svg.find("<svg")
    width = re.search(r' width="([0-9.]+)"', svg[begin:])
    most = f"max-width:{width.group(1)}px;" if width else ""
    return f'<svg style="width:100%;{most}height:auto"' + svg[begin + len("<svg") :]


class Figure:
    """An SVG figure, which notebooks show."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        return fitting(self.svg)

    def save(self, path: str) -> None:
        """Writes the SVG file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def loss_curve(
    losses: Sequence[tuple[int, float]], evaluations: Sequence[tuple[int, float, float]]
) -> str:
    """The SVG of losses by step: of each step in the background, and of evaluations."""
    lines = [("loss of a step", [float(s) for s, _ in losses], [v for _, v in losses], True)]
    for label, column in (("training data", 1), ("held-out data", 2)):
        points = [(float(e[0]), e[column]) for e in evaluations if math.isfinite(e[column])]
        lines.append((label, [x for x, _ in points], [y for _, y in points], False))
    return _core.curves(lines, "", "step", "loss (nats per token)")


def duration(seconds: float) -> str:
    """0:05, 12:34, 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Live:
    """Shows how training goes on, at most some times a second. ``shown`` is True for always, False
    for never, None for where somebody sees it: in terminals and notebooks."""

    _PAUSE = 0.2

    def __init__(
        self,
        shown: bool | None,
        plot: bool | None = False,
        steps: int | None = None,
        making: str = "making tokens",
    ) -> None:
        self._notebook = in_notebook()
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = shown if shown is not None else self._notebook or terminal
        self._plot = plot if plot is not None else True
        self._steps = steps
        self._making = making
        self._begun = time.monotonic()
        self._last = 0.0
        self._line = ""
        self._display: Any = None
        self._losses: list[tuple[int, float]] = []
        self._evaluations: list[tuple[int, float, float]] = []

    def progress(self, done: int, total: int) -> None:
        """So much of what comes before the first step is done."""
        if total > 0:
            self._tell(f"{self._making}: {100 * done // total} %", at_once=done == total)

    def step(self, step: int, loss: float, rate: float, speed: float) -> None:
        """A step is done."""
        self._losses.append((step, loss))
        if len(self._losses) > 4000:  # a curve has no more pixels
            self._losses = self._losses[::2]
        done = step + 1
        spent = time.monotonic() - self._begun
        of = f"/{self._steps}" if self._steps else ""
        left = f"  {duration(spent / done * (self._steps - done))} left" if self._steps else ""
        self._tell(
            f"step {done}{of}  loss {loss:.4f}  lr {rate:.2e}  {speed:,.0f} tokens/s"
            f"  {duration(spent)}{left}",
            at_once=done == self._steps,
        )

    def evaluation(self, step: int, train: float, held_out: float) -> None:
        """Losses were measured before a step."""
        self._evaluations.append((step, train, held_out))
        self._tell(self._line, at_once=True)

    def close(self, note: str = "") -> None:
        """Shows the last state once more."""
        if not self._shown or not self._line:
            return
        self._tell(f"{self._line}  {note}".rstrip(), at_once=True)
        if not self._notebook:
            sys.stderr.write("\n")

    def _tell(self, line: str, *, at_once: bool) -> None:
        self._line = line
        now = time.monotonic()
        if not self._shown or (not at_once and now - self._last < self._PAUSE):
            return
        self._last = now
        if self._notebook:
            self._tell_notebook(line)
        else:
            with contextlib.suppress(OSError):
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()

    def _tell_notebook(self, line: str) -> None:
        shell: Any = importlib.import_module("IPython.display")
        curve = self._plot and len(self._losses) > 1
        picture = fitting(loss_curve(self._losses, self._evaluations)) if curve else ""
        shown = shell.HTML(f"{picture}<pre>{line}</pre>")
        if self._display is None:
            self._display = shell.display(shown, display_id=True)
        else:
            self._display.update(shown)
