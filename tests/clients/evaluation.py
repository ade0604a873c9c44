"""Evaluates models through `folio serve` as harnesses do, by log-probabilities of prompts that are echoed, and
finds what `folio inspect probabilities` says of the same texts: evaluation.py FOLIO FILE"""

import json
import sys

from service import CONTEXT, Program, Service

TOLERANCE = 1e-4  # of a log-probability: both compute in float32, in other pieces


def texts_of(file, count):
    """Texts of different lengths, from all over the file, that fit the context."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    for i in range(count):
        begin = i * (len(text) - CONTEXT) // count
        yield text[begin : begin + 2 + (i * 37) % (CONTEXT // 2)]


def log_likelihood(service, model, ids, context):
    """Of what follows the first `context` tokens, with whether it is what a greedy model would write."""
    answer = service.post(
        "/v1/completions",
        {"model": model, "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0},
    )
    told = answer["choices"][0]["logprobs"]
    logs, tops = told["token_logprobs"][context:], told["top_logprobs"][context:]
    greedy = all(log >= max(top.values()) for log, top in zip(logs, tops))
    return logs, greedy


def inspected(program, model, text):
    out = program.run("inspect", "probabilities", "--model", model, "--json", "--file", "-", text=text)
    return json.loads(out)["scores"]


def main():
    program, file = Program(sys.argv[1]), sys.argv[2]
    program.train_models()
    tokens, worst, greedy_texts = 0, 0.0, 0
    with Service(program) as service:
        for model, source in [("letters", program.file("stories.txt")), ("talker", file)]:
            for text in texts_of(source, 24):
                ids = service.post("/tokenize", {"model": model, "content": text})["tokens"]
                wanted = inspected(program, model, text)
                for context in {1, len(ids) // 2 or 1, len(ids) - 1}:
                    logs, greedy = log_likelihood(service, model, ids, context)
                    rest = wanted[context - 1 :]
                    if len(logs) != len(rest):
                        sys.exit(f"{model}: {len(logs)} log-probabilities of {len(rest)} tokens of {text!r}")
                    for log, score in zip(logs, rest):
                        worst = max(worst, abs(log + score["surprise"]))
                    if greedy != all(score["rank"] == 1 for score in rest):
                        sys.exit(f"{model}: greedy is {greedy}, and ranks say otherwise, of {text!r}")
                    tokens += len(rest)
                    greedy_texts += greedy
    program.scratch.cleanup()
    print(f"{tokens} tokens, {greedy_texts} greedy texts, largest difference {worst:.2e} nats")
    if tokens < 500 or greedy_texts == 0:
        sys.exit("too little was compared")
    if not worst <= TOLERANCE:
        sys.exit(f"more than {TOLERANCE} apart")


if __name__ == "__main__":
    main()
