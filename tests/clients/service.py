"""Small models, and `folio serve` with them, for the tests that look at the service as its clients do."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

KEY = "a-key-of-the-tests"
CONTEXT = 128


class Program:
    """folio, working in a directory of its own that goes when this is closed."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.scratch = tempfile.TemporaryDirectory(prefix="folio-clients-")
        self.directory = self.scratch.name

    def run(self, *words, text=None):
        """What it writes to standard output; its failure is the test's."""
        done = subprocess.run(
            [self.path, *words, "--no-config"], cwd=self.directory, input=text, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"folio {' '.join(words)}: status {done.returncode}\n{done.stderr}")
        return done.stdout

    def file(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)

    def train_models(self):
        """`letters`, of characters, and `talker`, of bytes, which was taught to answer; both a little."""
        self.run("data", "stories", "--bytes", "100000", "--out", "stories.txt")
        small = [
            "--set", "model.n_layer=2", "model.n_head=2", "model.n_embd=32", f"model.n_positions={CONTEXT}",
            "train.eval_batches=2", "--batch", "4",
        ]  # fmt: skip
        self.run("train", "--data", "stories.txt", "--tokenizer", "char", "--out", "letters", "--max-steps", "60", *small)
        questions = [
            {"prompt": f"What comes after {i}?", "completion": f"After {i} comes {i + 1}."} for i in range(200)
        ]
        self.write("questions.jsonl", "".join(json.dumps(one) + "\n" for one in questions))
        self.run("train", "--data", "questions.jsonl", "--tokenizer", "bytes", "--out", "talker", "--max-steps", "40", *small)


class Service:
    """`folio serve` with the two models, on a port of its own; ends with the block."""

    def __init__(self, program, *flags, keys=True):
        words = [program.path, "serve", "--no-config", "--json", "--port", "0"]
        words += ["--model", "letters", "--model", "talker", *flags]
        if keys:
            program.write("keys.txt", KEY + "\n")
            words += ["--api-key-file", "keys.txt"]
        self.words, self.directory = words, program.directory

    def __enter__(self):
        self.process = subprocess.Popen(
            self.words, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        first = self.process.stdout.readline()
        if not first:
            sys.exit(f"folio serve ended with {self.process.wait()}")
        self.url = json.loads(first)["url"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            sys.exit(f"folio serve ended with {self.process.returncode}")

    def post(self, path, body):
        """The answer to a plain request, without any client's library."""
        request = urllib.request.Request(
            self.url + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer " + KEY},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def metric(self, name):
        request = urllib.request.Request(self.url + "/metrics", headers={"Authorization": "Bearer " + KEY})
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("folio_" + name + " "):
                    return float(line.split()[1])
        raise KeyError(name)
