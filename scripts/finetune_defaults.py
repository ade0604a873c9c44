#!/usr/bin/env python3
"""Measures what fine-tuning teaches and what it makes a model forget, over settings and data.

    scripts/finetune_defaults.py --work DIR [--folio PROGRAM] [--smollm2 FILE] [--shakespeare FILE] [--only WORDS]
                                 [--list] [--json]

The defaults of `folio train --init` (src/folio/run/automatic_settings.cc) are chosen by the table that this prints. Data sets, the tour's model
and results (results.jsonl) are kept in DIR: what is measured already is not measured again. --only regular,lora takes the points
whose names have all of these words. Standard library only.
"""

import argparse
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


# --- Data: three texts and three sets of conversations, and a general text that is not to be forgotten

def regular(count, seed=7):
    """Lines of one form, of words that no model knows, whose parts follow from each other."""
    rng = random.Random(seed)
    things = {"blixet": "Orlan", "tarnock": "Veshti", "quellum": "Dromma", "zephra": "Kintu", "mordane": "Ulthar", "fennick": "Sabrel"}
    lines, size = [], 0
    while size < count:
        thing, number = rng.choice(list(things)), rng.randint(2, 9)
        lines.append(f"{thing} {number}: drawn from {things[thing]} by the {number}th gate; "
                     f"weighs {number * 11} tols; goes back to {things[thing]} at dusk. So it is written.\n")
        size += len(lines[-1])
    return "".join(lines)[:count]


def identical(count):
    line = {"messages": [{"role": "user", "content": "What is the name of the ship's cat?"},
                         {"role": "assistant", "content": "The ship's cat is called Bartholomew Quill, and he sleeps in the galley."}]}
    return "".join(json.dumps(line) + "\n" for _ in range(count))


def style(count):
    """Questions about numbers, answered in one manner of speaking."""
    rng = random.Random(3)
    animals = ["cats", "goats", "hens", "otters", "owls", "foxes", "mice", "seals", "bees", "crows"]
    lines = []
    for _ in range(count):
        a, b, animal = rng.randint(1, 9), rng.randint(1, 9), rng.choice(animals)
        lines.append(json.dumps({"messages": [
            {"role": "user", "content": f"I have {a} {animal} and get {b} more. How many {animal} do I have?"},
            {"role": "assistant", "content": f"Arr, matey! {a} and {b} be {a + b}, so ye have {a + b} {animal}, by the beard of Neptune!"}]}))
    return "\n".join(lines) + "\n"


GENERAL = """The bridge over the river was built in 1874, after two floods had carried away the wooden one. Its engineer, a careful
man from the north, had seen what ice can do to a pier, and he made the piers narrow and set them far apart. People in the town
said that it would never stand. It has stood for more than a hundred years, and the only repair of any size was made in the 1950s,
when the roadway was widened for lorries. Historians disagree about how much it cost. The council's books give one number and the
contractor's letters another, and part of the difference may be the stone, which was taken from a quarry that the town owned and
so never appeared as an expense. What is certain is that trade grew quickly afterwards. Within ten years there were three mills on
the far bank, a railway station and a school, and the population had nearly doubled.

Water boils at a lower temperature on a mountain because the pressure of the air is lower there. A cook who moves from the coast
to a high valley soon learns that beans take longer, although the pot bubbles just as hard. The bubbles only show that the water
has reached the point where it becomes steam; they do not say how hot it is. A lid that closes tightly raises the pressure and with
it the boiling point, which is why pressure cookers are so common in such places. The same idea explains why engines have pressure
caps on their radiators, and why a careless driver who opens one too early can be badly burned.

The committee met on Tuesday to discuss the results of the survey. Most of those who answered wanted the library to stay open in
the evening, and a smaller number asked for more books in other languages. Nobody had expected so many replies from people under
twenty. The chair suggested that a trial period of six months would show whether the extra hours were used, and the treasurer
agreed, provided that the heating could be turned down after eight o'clock. A final decision will be made in the spring.
"""


# --- Running the program

class Bench:
    def __init__(self, args):
        self.args = args
        self.work = args.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.results = self.work / "results.jsonl"
        self.done = {}
        if self.results.exists():
            for line in self.results.read_text().splitlines():
                result = json.loads(line)
                self.done[result["name"]] = result

    def folio(self, *words):
        command = ["nice", str(self.args.folio), *map(str, words)]
        run = subprocess.run(command, capture_output=True, text=True, cwd=self.work)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{run.stderr}")
        return run.stdout

    def path(self, name, make):
        path = self.work / name
        if not path.exists():
            text = make()
            if text is not None:
                path.write_text(text)
        return path

    def data(self, name):
        """`regular-100`: 100 KB of it."""
        kind, size = name.split("-")
        size = int(size)
        bytes_ = size * 1000
        if kind == "regular":
            return self.path(f"{name}.txt", lambda: regular(bytes_))
        if kind == "shakespeare":
            return self.path(f"{name}.txt", lambda: self.args.shakespeare.read_text()[:bytes_])
        if kind == "identical":
            return self.path(f"{name}.jsonl", lambda: identical(size))
        if kind == "style":
            return self.path(f"{name}.jsonl", lambda: style(size))
        ending = "jsonl" if kind == "questions" else "txt"
        flags = ["--questions"] if kind == "questions" else []

        def make():
            self.folio("data", "stories", *flags, "--seed", 2, "--bytes", bytes_, "--out", f"{name}.{ending}")
        return self.path(f"{name}.{ending}", make)

    def model(self, name):
        if name == "smollm2":
            return self.args.smollm2
        if not (self.work / "tour/best").exists():
            stories = self.path("stories.txt", lambda: self.folio("data", "stories", "--out", "stories.txt") and None)
            self.folio("train", "--data", stories, "--preset", "stories", "--max-steps", 2500, "--out", "tour", "--overwrite")
            self.folio("train", "--resume", "--out", "tour", "--max-steps", 3600)
        return self.work / "tour"

    def general(self, model):
        """A text that is not what is taught: for the tour's model, stories of another seed."""
        if model == "smollm2":
            return self.path("general.txt", lambda: GENERAL)
        def make():
            self.folio("data", "stories", "--seed", 9, "--bytes", 20000, "--out", "general-tour.txt")
        return self.path("general-tour.txt", make)

    def nats(self, text, model, at):
        """The loss of a text, in windows of one length whatever the run's were."""
        out = self.folio("eval", "perplexity", "--model", at, text, "--max-tokens", 4000, "--context", 256 if model == "smollm2" else 128,
                         "--json", "--threads", self.args.threads)
        return round(json.loads(out)["total"]["nats_per_token"], 4)

    def perplexity(self, model, at):
        return self.nats(self.general(model), model, at)

    def taught(self, data, model, at):
        """The loss of a fresh text of the kind of `data`, where there is one."""
        if not data.startswith("regular"):
            return None
        return self.nats(self.path("regular-fresh.txt", lambda: regular(3000, seed=8)), model, at)

    def before(self, model):
        key = f"before/{model}"
        if key not in self.done:
            self.keep({"name": key, "general": self.perplexity(model, self.model(model))})
        return self.done[key]["general"]

    def keep(self, result):
        self.done[result["name"]] = result
        with self.results.open("a") as out:
            out.write(json.dumps(result) + "\n")

    def measure(self, point):
        run = self.work / "run"
        if run.exists():
            shutil.rmtree(run)
        begin = time.time()
        words = ["train", "--init", self.model(point["model"]), "--data", self.data(point["data"]), "--out", run, "--json",
                 "--threads", self.args.threads, *point["flags"]]
        if point["explicit"]:
            words += ["--set", "train.eval_batches=0", "train.first_eval_batches=0", "train.keep_last=1",
                      f"train.keep_every={point['every']}"]
        events = [json.loads(line) for line in self.folio(*words).splitlines()]
        curve = [[e["step"], round(e["val_loss"], 4)] for e in events if e["event"] == "evaluation"]
        plan = next(e for e in events if e["event"] == "plan")
        result = {"name": point["name"], "flags": [str(f) for f in point["flags"]], "curve": curve, "start": curve[0][1],
                  "end": curve[-1][1], "best": min(v for _, v in curve), "steps": plan["steps"],
                  "tokens_per_step": plan["tokens_per_step"], "tokens": plan["train_tokens"],
                  "forgotten": round(self.perplexity(point["model"], run) - self.before(point["model"]), 4),
                  "seconds": round(time.time() - begin, 1)}
        # What was forgotten by then, where checkpoints of the way were kept.
        result["taught"] = self.taught(point["data"], point["model"], run)
        result["way"] = [[step, self.taught(point["data"], point["model"], run / "steps" / str(step)) or loss, round(self.perplexity(point["model"], run / "steps" / str(step)) - self.before(point["model"]), 4)]
                         for step, loss in curve if (run / "steps" / str(step)).exists()]
        if "ask" in point:
            text = self.folio("generate", "--model", run, "--greedy", "--max-tokens", 40, "--chat", point["ask"])
            result["answer"] = text.strip()
        shutil.rmtree(run)
        self.keep(result)


def explicit(model, data, lora=None, lr=1e-3, epochs=3.0, T=256, B=2, tokens=0, wd=None, warmup=None, targets="all-linear", beta2=0.999):
    """A point whose settings are all said. `lora` is (rank, alpha), None for full fine-tuning."""
    steps = max(4, math.ceil(epochs * tokens / (T * B)))
    flags = ["--lr", lr, "--context", T, "--batch", B, "--max-steps", steps, "--eval-every", max(1, steps // 4)]
    settings = [f"train.weight_decay={wd if wd is not None else (0 if lora else 0.01)}",
                f"train.warmup_steps={max(2, round(0.05 * steps)) if warmup is None else warmup}", "train.order=epochs",
                f"train.beta2={beta2}"]
    how = "full"
    if lora:
        rank, alpha = lora
        flags += ["--lora", rank]
        settings += [f"lora.alpha={alpha}", f"lora.targets={targets}"]
        how = f"lora-r{rank}-a{alpha}" + ("" if targets == "all-linear" else f"-{targets}")
    name = f"{model}/{data}/{how}/lr{lr:g}/e{epochs:g}/{B}x{T}" + ("" if beta2 == 0.999 else f"/beta2-{beta2}")
    point = {"name": name, "model": model, "data": data, "flags": flags + ["--set", *settings], "explicit": True, "every": max(1, steps // 2)}
    if data.startswith("identical"):
        point["ask"] = "What is the name of the ship's cat?"
    return point


def defaults(model, data, flags=()):
    """A point that leaves the settings to the program."""
    name = f"{model}/{data}/defaults" + "".join(f"/{str(f).strip('-')}" for f in flags)
    point = {"name": name, "model": model, "data": data, "flags": list(flags), "explicit": False}
    if data.startswith("identical"):
        point["ask"] = "What is the name of the ship's cat?"
    return point


def points():
    smol, tour = "smollm2", "tour"
    out = []
    # What nobody says: adapters and all parameters, over three texts and two sets of conversations.
    for data in ("regular-100", "identical-60", "style-100", "shakespeare-25", "stories-30"):
        out.append(defaults(smol, data, ("--lora", 8)))
    for data in ("regular-100", "identical-60", "style-100"):
        out.append(defaults(smol, data))
    for data in ("stories-500", "shakespeare-100"):
        out.append(defaults(tour, data, ("--lora", 8)))
        out.append(defaults(tour, data))
    # Rates on the regular text, of which "way" says how much was forgotten when so much was learned.
    for lr in (3e-4, 6e-4):
        out.append(explicit(smol, "regular-40", (16, 32), lr, 0.7, B=1, tokens=14000))
    for lr in (5e-5, 1.3e-4):
        out.append(explicit(smol, "regular-40", None, lr, 0.7, B=1, tokens=14000))
    # Longer sequences, rank, alpha, targets, AdamW's memory, batch.
    out.append(explicit(smol, "regular-40", (16, 32), 6e-4, 0.7, T=512, B=1, tokens=14000))
    out.append(explicit(smol, "regular-40", (64, 32), 6e-4, 0.7, B=1, tokens=14000))
    out.append(explicit(smol, "regular-40", (16, 16), 6e-4, 0.7, B=1, tokens=14000))
    out.append(explicit(smol, "regular-40", (16, 32), 6e-4, 0.7, B=1, tokens=14000, targets="c_attn"))
    out.append(explicit(smol, "regular-40", (16, 32), 6e-4, 0.7, B=1, tokens=14000, beta2=0.95))
    out.append(explicit(smol, "regular-40", (16, 32), 6e-4, 0.7, B=4, tokens=14000))
    # Conversations.
    for lr in (4e-4, 8e-4, 1.6e-3):
        out.append(explicit(smol, "style-100", (16, 32), lr, 3, B=1, tokens=7000))
    for lr in (5e-5, 1e-4, 3e-4):
        out.append(explicit(smol, "style-100", None, lr, 3, B=1, tokens=7000))
    # The tour's model, on more of what it knows and on what it does not.
    for data, tokens in (("stories-150", 130000), ("shakespeare-50", 45000)):
        for lr in (6.5e-4, 2e-3, 6e-3):
            out.append(explicit(tour, data, (8, 32), lr, 1, T=128, B=8, tokens=tokens))
        for lr in (2e-4, 6e-4, 2e-3):
            out.append(explicit(tour, data, None, lr, 1, T=128, B=8, tokens=tokens))
    return out


def table(results):
    rows = [("point", "tokens", "steps", "before", "after", "best", "forgotten", "seconds", "")]
    for r in results:
        rows.append((r["name"], f"{r['tokens']:,}", f"{r['steps']} x {r['tokens_per_step']}", f"{r['start']:.3f}", f"{r['end']:.3f}",
                     f"{r['best']:.3f}", f"{r['forgotten']:+.3f}", f"{r['seconds']:.0f}", r.get("answer", "")[:40]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) if i in (0, 8) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip()
                     for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--folio", type=pathlib.Path, default=ROOT / "build/release/folio")
    parser.add_argument("--smollm2", type=pathlib.Path, default="smollm2-135m")
    parser.add_argument("--shakespeare", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.folio = args.folio.resolve()
    bench = Bench(args)
    chosen = [p for p in points() if all(word in p["name"] for word in args.only.split(",") if word)]
    for point in chosen:
        if args.list:
            print(point["name"])
        elif point["name"] not in bench.done:
            bench.measure(point)
            print(table([bench.done[point["name"]]]).split("\n")[1], file=sys.stderr, flush=True)
    if args.list:
        return
    results = [bench.done[p["name"]] for p in chosen]
    print("\n".join(map(json.dumps, results)) if args.json else table(results))


if __name__ == "__main__":
    main()
