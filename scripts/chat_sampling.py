"""Measures sampling settings for conversations: how many of 200 simple questions (chat_questions.tsv) a model answers exactly.

    python scripts/chat_sampling.py FOLIO MODEL [--seeds N] [--tokens N] [--only TEXT] [--setting JSON] [--lengths]

An answer is exact if the expected word or number stands in it as a whole word. Each setting is a row: right answers in
percent (mean over the seeds, least and most of a seed), how many different answers the seeds gave to a question, and the
share of answers that ended by themselves. Every question has a seed of its own, so that what is drawn for one says nothing
of another. `folio serve` answers, with one thread. With --lengths it asks 24 open questions instead, by the model's
defaults, and prints how long the answers are.
"""

import argparse, collections, concurrent.futures, json, pathlib, re, subprocess, urllib.request

PLAIN = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1}
SETTINGS = {
    "temperature 1": {},
    "0.8, top-k 40, top-p 0.95, min-p 0.05": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    "0.7": {"temperature": 0.7},
    "0.7, min-p 0.1": {"temperature": 0.7, "min_p": 0.1},
    "0.7, top-k 40, top-p 0.9, min-p 0.05": {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    "0.5, top-k 40, top-p 0.9, min-p 0.05": {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    "0.3, top-k 40, top-p 0.9, min-p 0.05": {"temperature": 0.3, "top_k": 40, "top_p": 0.9, "min_p": 0.05},
    "0.2, top-p 0.9": {"temperature": 0.2, "top_p": 0.9},
    "greedy": {"temperature": 0},
    "0.5, top-k 40, top-p 0.9, min-p 0.05, repetition 1.1":
        {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1},
    "greedy, repetition 1.1": {"temperature": 0, "repetition_penalty": 1.1},
}

parser = argparse.ArgumentParser()
parser.add_argument("folio")
parser.add_argument("model")
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--tokens", type=int, default=24)
parser.add_argument("--only", help="the name of the one setting to measure")
parser.add_argument("--lengths", action="store_true", help="print the lengths of answers to open questions")
parser.add_argument("--setting", type=json.loads, help="another setting than those of the table, as JSON")
args = parser.parse_args()
settings = {"setting": args.setting} if args.setting else {args.only: SETTINGS[args.only]} if args.only else SETTINGS

lines = (pathlib.Path(__file__).parent / "chat_questions.tsv").read_text().splitlines()
questions, answers = zip(*(line.split("\t") for line in lines))
patterns = [re.compile(r"(?<![\w.])(?:%s)(?!\w|[.,]\d)" % "|".join(map(re.escape, answer.split("|"))), re.IGNORECASE)
            for answer in answers]
assert not any(pattern.search(question) for pattern, question in zip(patterns, questions)), "an answer in its question"
OPEN = ["Why is the sky blue?", "How do I bake bread?", "Tell me a story about a fox.", "Write a poem about the sea.",
        "Explain what a prime number is.", "What should I see in Paris?", "How does a bicycle stay upright?",
        "Write an email to my landlord about a broken window.", "What are the benefits of sleep?", "Hello!", "Who are you?",
        "Give me five names for a cat.", "What is photosynthesis?", "How can I learn to play chess?", "Thank you.",
        "Write a Python function that reverses a list.", "What is the difference between weather and climate?",
        "Summarize the story of Romeo and Juliet.", "How do vaccines work?", "Plan a day for two children at home.",
        "Why do cats purr?", "What is inflation?", "Compare tea and coffee.", "Write a birthday wish for my mother."]


def answered(url, request):
    body = json.dumps(request).encode()
    call = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(call))


def ask(url, setting, question, seed):
    answer = answered(url, {**PLAIN, **setting, "messages": [{"role": "user", "content": questions[question]}],
                            "max_tokens": args.tokens, "seed": 1000 * seed + question})
    choice = answer["choices"][0]
    return question, seed, choice["message"]["content"], choice["finish_reason"] == "stop"


def length(url, i):
    most = 1024
    answer = answered(url, {"messages": [{"role": "user", "content": OPEN[i]}], "max_tokens": most, "seed": i})
    tokens = answer["usage"]["completion_tokens"]
    return tokens if answer["choices"][0]["finish_reason"] == "stop" else most + 1


command = [args.folio, "serve", "--model", args.model, "--port", "0", "--threads", "1", "--slots", "32", "--json", "-q"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service, concurrent.futures.ThreadPoolExecutor(48) as pool:
    url = json.loads(service.stdout.readline())["url"]
    if args.lengths:
        lengths = sorted(pool.map(lambda i: length(url, i), range(len(OPEN))))
        print("tokens of answers, 1025 for one that did not end:", *lengths)
        for most in (64, 128, 256, 512, 1024):
            print(f"{sum(n <= most for n in lengths)} of {len(lengths)} end within {most} tokens")
        settings = {}
    else:
        print(f"{'setting':54} right %  (of a seed)     answers  ended", flush=True)
    for name, setting in settings.items():
        seeds = 1 if setting.get("temperature") == 0 else args.seeds
        right, texts, ended = collections.Counter(), collections.defaultdict(set), 0
        asked = [pool.submit(ask, url, setting, question, seed) for seed in range(seeds) for question in range(len(questions))]
        for question, seed, text, stopped in (one.result() for one in asked):
            right[seed] += patterns[question].search(text) is not None
            texts[question].add(text)
            ended += stopped
        of_seeds = [100 * right[seed] / len(questions) for seed in range(seeds)]
        different = sum(map(len, texts.values())) / len(questions)
        print(f"{name:54} {sum(of_seeds) / seeds:6.1f}  ({min(of_seeds):.1f} to {max(of_seeds):.1f})"
              f"   {different:.2f} of {seeds}   {100 * ended / (seeds * len(questions)):3.0f} %", flush=True)
    service.terminate()
