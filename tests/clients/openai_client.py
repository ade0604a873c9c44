"""What OpenAI's own client for Python sees of `folio serve`: openai_client.py FOLIO [unittest's words]"""

import asyncio
import concurrent.futures
import json
import math
import subprocess
import sys
import time
import unittest

import openai
from service import CONTEXT, KEY, Program, Service

PROMPT = "One day, a "
program = service = client = None


def setUpModule():
    global service, client
    program.train_models()
    service = Service(program)
    service.__enter__()
    client = openai.OpenAI(base_url=service.url + "/v1", api_key=KEY, max_retries=0, timeout=60)


def tearDownModule():
    client.close()
    service.__exit__()
    program.scratch.cleanup()


def complete(**fields):
    fields = {"model": "letters", "prompt": PROMPT, "max_tokens": 12, "seed": 5} | fields
    return client.completions.create(**fields)


def chat(**fields):
    messages = [{"role": "user", "content": "What comes after 5?"}]
    fields = {"model": "talker", "messages": messages, "max_tokens": 12, "seed": 5} | fields
    return client.chat.completions.create(**fields)


def tokenize(text, model="letters"):
    return service.post("/tokenize", {"model": model, "content": text})["tokens"]


class Models(unittest.TestCase):
    def test_list_and_retrieve(self):
        self.assertEqual([one.id for one in client.models.list()], ["letters", "talker"])
        one = client.models.retrieve("talker")
        self.assertEqual((one.id, one.object, one.owned_by), ("talker", "model", "folio"))
        self.assertAlmostEqual(one.created, time.time(), delta=600)

    def test_unknown(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            client.models.retrieve("none/such")
        self.assertEqual(caught.exception.code, "model_not_found")


class Completions(unittest.TestCase):
    def test_whole(self):
        answer = complete()
        self.assertEqual((answer.object, answer.model, len(answer.choices)), ("text_completion", "letters", 1))
        self.assertTrue(answer.id.startswith("cmpl-"))
        choice = answer.choices[0]
        self.assertEqual((choice.index, choice.finish_reason, choice.logprobs), (0, "length", None))
        self.assertEqual(len(choice.text), 12)
        usage = answer.usage
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (11, 12, 23))

    def test_a_seed_says_what_is_written(self):
        self.assertEqual(complete().choices[0].text, complete().choices[0].text)
        self.assertNotEqual(complete().choices[0].text, complete(seed=6).choices[0].text)
        self.assertNotEqual(complete(seed=None).choices[0].text, complete(seed=None).choices[0].text)

    def test_stream(self):
        fields = {"n": 2, "logprobs": 2, "echo": True}
        whole = complete(**fields)
        texts, logs, tokens, reasons, ids = ["", ""], [[], []], [[], []], [None, None], set()
        for chunk in complete(stream=True, **fields):
            self.assertIsNone(chunk.usage)
            ids.add(chunk.id)
            for choice in chunk.choices:
                i = choice.index
                self.assertIsNone(reasons[i], "nothing comes behind the end")
                texts[i] += choice.text
                logs[i] += choice.logprobs.token_logprobs
                tokens[i] += choice.logprobs.tokens
                reasons[i] = choice.finish_reason
        self.assertEqual(len(ids), 1)
        for choice in whole.choices:
            self.assertEqual(texts[choice.index], choice.text)
            self.assertEqual(tokens[choice.index], choice.logprobs.tokens)
            self.assertEqual(logs[choice.index], choice.logprobs.token_logprobs)
            self.assertEqual(reasons[choice.index], choice.finish_reason)

    def test_usage_of_a_stream(self):
        chunks = list(complete(stream=True, n=2, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage, complete(n=2).usage)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_n(self):
        choices = complete(n=4).choices
        self.assertEqual([one.index for one in choices], [0, 1, 2, 3])
        self.assertEqual(len({one.text for one in choices}), 4)
        self.assertEqual(choices[0].text, complete().choices[0].text, "the others change nothing")

    def test_best_of(self):
        every = complete(n=5, logprobs=0).choices
        mean = lambda one: sum(one.logprobs.token_logprobs) / len(one.logprobs.token_logprobs)
        best = sorted(every, key=mean, reverse=True)
        answer = complete(n=2, best_of=5)
        self.assertEqual([one.text for one in answer.choices], [one.text for one in best[:2]])
        self.assertEqual([one.index for one in answer.choices], [0, 1])
        self.assertEqual(answer.usage.completion_tokens, 60, "all that were written")

    def test_echo(self):
        plain = complete().choices[0].text
        self.assertEqual(complete(echo=True).choices[0].text, PROMPT + plain)
        only = complete(echo=True, max_tokens=0, logprobs=1)
        self.assertEqual(only.choices[0].text, PROMPT)
        self.assertEqual(only.choices[0].logprobs.tokens, list(PROMPT))
        self.assertIsNone(only.choices[0].logprobs.token_logprobs[0])
        self.assertEqual(only.usage.completion_tokens, 0)

    def test_logprobs(self):
        choice = complete(logprobs=3, temperature=0).choices[0]
        logprobs = choice.logprobs
        self.assertEqual("".join(logprobs.tokens), choice.text)
        self.assertEqual(logprobs.text_offset, list(range(12)))
        for token, log, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
            self.assertEqual(len(top), 3)
            self.assertEqual(max(top, key=top.get), token)
            self.assertEqual(top[token], log)
            self.assertLess(sum(math.exp(one) for one in top.values()), 1 + 1e-6)
        self.assertIsNone(complete(logprobs=0).choices[0].logprobs.top_logprobs)

    def test_stop(self):
        text = complete(max_tokens=60).choices[0].text
        for stop in [text[20:23], ["never there", text[20:23]]]:
            for stream in [False, True]:
                answer = complete(max_tokens=60, stop=stop, stream=stream)
                chunks = list(answer) if stream else [answer]
                stopped = "".join(one.choices[0].text for one in chunks)
                self.assertEqual(stopped, text[: text.index(text[20:23])])
                self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_logit_bias(self):
        (a,) = tokenize("a")
        self.assertEqual(complete(logit_bias={str(a): 100}).choices[0].text, "a" * 12)
        self.assertNotIn("a", complete(logit_bias={str(a): -100}, max_tokens=100).choices[0].text)

    def test_penalties(self):
        a, b = tokenize("ab")
        near = {str(a): 100, str(b): 99}
        fields = {"logit_bias": near, "temperature": 0}
        plain = complete(**fields).choices[0].text
        self.assertEqual(plain, plain[0] * 12)
        often = complete(frequency_penalty=2, **fields).choices[0].text
        self.assertEqual(set(often), {"a", "b"}, "what was written often gives way")
        again = complete(presence_penalty=2, temperature=0, max_tokens=80).choices[0].text
        self.assertNotEqual(again, complete(temperature=0, max_tokens=80).choices[0].text)

    def test_cuts(self):
        greedy = complete(temperature=0).choices[0].text
        self.assertEqual(complete(top_p=0).choices[0].text, greedy)
        for more in [{"top_k": 1}, {"min_p": 1}]:
            self.assertEqual(complete(extra_body=more).choices[0].text, greedy, more)
        self.assertEqual(complete(extra_body={"top_k": -1}).choices[0].text, complete().choices[0].text)

    def test_more_fields(self):
        (space,) = tokenize(" ")
        text = complete(max_tokens=60).choices[0].text
        ended = complete(max_tokens=60, extra_body={"stop_token_ids": [space]}).choices[0]
        self.assertEqual((ended.text, ended.finish_reason), (text[: text.index(" ")], "stop"))
        ids = complete(extra_body={"return_token_ids": True}).choices[0]
        self.assertEqual(ids.prompt_token_ids, tokenize(PROMPT))
        self.assertEqual(ids.token_ids, tokenize(ids.text))
        self.assertEqual(complete(user="somebody").choices[0].text, complete().choices[0].text)

    def test_prompts_in_all_forms(self):
        two = [PROMPT, "The old "]
        alone = [complete(prompt=one).choices[0].text for one in two]
        self.assertNotEqual(alone[0], alone[1])
        ids = [tokenize(one) for one in two]
        self.assertEqual(complete(prompt=ids[0]).choices[0].text, alone[0])
        for prompts in [two, ids]:
            answer = complete(prompt=prompts)
            self.assertEqual([one.text for one in answer.choices], alone)
            self.assertEqual([one.index for one in answer.choices], [0, 1])
        many = complete(prompt=two, n=3)
        self.assertEqual(len(many.choices), 6)
        self.assertEqual([many.choices[0].text, many.choices[3].text], alone)

    def test_a_full_context_ends_the_text(self):
        choice = complete(max_tokens=10 * CONTEXT).choices[0]
        self.assertEqual(choice.finish_reason, "length")
        self.assertEqual(len(choice.text), CONTEXT - len(PROMPT) + 1)

    def test_many_at_once_are_as_if_alone(self):
        async def all_of(seeds):
            async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=KEY, max_retries=0) as many:
                return await asyncio.gather(
                    *(many.completions.create(model="letters", prompt=PROMPT, max_tokens=40, seed=i) for i in seeds)
                )

        together = asyncio.run(all_of(range(12)))
        for i, answer in enumerate(together):
            self.assertEqual(answer.choices[0].text, complete(max_tokens=40, seed=i).choices[0].text, i)

    def test_a_stream_that_is_left_ends(self):
        texts = complete(model="talker", max_tokens=100, n=8, stream=True)
        next(iter(texts))
        texts.close()
        end = time.monotonic() + 30
        while service.metric("texts_running") > 0 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(service.metric("texts_running"), 0)


class Chat(unittest.TestCase):
    def test_whole(self):
        answer = chat()
        self.assertEqual((answer.object, answer.model), ("chat.completion", "talker"))
        choice = answer.choices[0]
        self.assertEqual((choice.index, choice.message.role, choice.logprobs), (0, "assistant", None))
        self.assertIsInstance(choice.message.content, str)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual(choice.message.content, chat().choices[0].message.content)

    def test_stream(self):
        fields = {"n": 2, "logprobs": True, "top_logprobs": 2}
        whole = chat(**fields)
        texts, tokens, reasons = ["", ""], [[], []], [None, None]
        for chunk in chat(stream=True, stream_options={"include_usage": True}, **fields):
            self.assertEqual(chunk.object, "chat.completion.chunk")
            if not chunk.choices:
                self.assertEqual(chunk.usage, whole.usage)
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
                reasons[choice.index] = choice.finish_reason
        for choice in whole.choices:
            self.assertEqual(texts[choice.index], choice.message.content)
            self.assertEqual(tokens[choice.index], choice.logprobs.content)
            self.assertEqual(reasons[choice.index], choice.finish_reason)

    def test_stream_helper(self):
        with client.chat.completions.stream(
            model="talker", messages=[{"role": "user", "content": "What comes after 5?"}], max_tokens=12, seed=5
        ) as stream:
            for _ in stream:
                pass
            written = stream.current_completion_snapshot.choices[0].message.content
            self.assertEqual(written, chat().choices[0].message.content)

    def test_logprobs(self):
        content = chat(logprobs=True, top_logprobs=3, temperature=0).choices[0].logprobs.content
        self.assertEqual(len(content), 12)
        for one in content:
            self.assertEqual(len(one.top_logprobs), 3)
            self.assertEqual(one.top_logprobs[0].token, one.token)
            self.assertEqual(one.top_logprobs[0].logprob, one.logprob)
            self.assertLess(one.logprob, 0)
            self.assertEqual(len(one.bytes), 1)
        self.assertEqual(chat(logprobs=True).choices[0].logprobs.content[0].top_logprobs, [])

    def test_messages(self):
        say = lambda *messages: chat(messages=list(messages)).choices[0].message.content
        user = {"role": "user", "content": "What comes after 5?"}
        parts = {"role": "user", "content": [{"type": "text", "text": "What comes "}, {"type": "text", "text": "after 5?"}]}
        self.assertEqual(say(parts), say(user))
        system, developer = ({"role": role, "content": "Be short."} for role in ["system", "developer"])
        self.assertEqual(say(system, user), say(developer, user))
        longer = chat(messages=[user, {"role": "assistant", "content": "6."}, user])
        self.assertGreater(longer.usage.prompt_tokens, chat().usage.prompt_tokens + 20)

    def test_limits(self):
        self.assertEqual(chat(max_tokens=3).usage.completion_tokens, 3)
        three = client.chat.completions.create(
            model="talker", messages=[{"role": "user", "content": "5?"}], max_completion_tokens=3, seed=1
        )
        self.assertEqual((three.usage.completion_tokens, three.choices[0].finish_reason), (3, "length"))
        bias = {"logit_bias": {"65": 100}, "max_tokens": 5}
        self.assertEqual(chat(**bias).choices[0].message.content, "AAAAA")
        stopped = chat(stop="A", **bias).choices[0]
        self.assertEqual((stopped.message.content, stopped.finish_reason), ("", "stop"))

    def test_refusals(self):
        wrong = [
            {"messages": []},
            {"messages": ["hello"]},
            {"messages": [{"role": "wizard", "content": "x"}]},
            {"messages": [{"role": "user"}]},
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            {"messages": [{"role": "user", "content": "x" * 200}]},
            {"model": "letters"},
            {"logprobs": True, "top_logprobs": 21},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
            {"response_format": {"type": "json_object"}},
        ]
        for fields in wrong:
            with self.assertRaises(openai.BadRequestError, msg=fields):
                chat(**fields)
        chat(tools=[], response_format={"type": "text"}, tool_choice="none")


class Embeddings(unittest.TestCase):
    def vectors(self, **fields):
        answer = client.embeddings.create(**({"model": "letters"} | fields))
        self.assertEqual([one.index for one in answer.data], list(range(len(answer.data))))
        return [one.embedding for one in answer.data]

    def test_forms(self):
        two = ["One day", "The old farmer"]
        for one in self.vectors(input=two):
            self.assertEqual(len(one), 32)
            self.assertAlmostEqual(sum(x * x for x in one), 1, places=5)
        a, b = self.vectors(input=two)
        for got, wanted in [
            (self.vectors(input=two[0]), [a]),
            (self.vectors(input=tokenize(two[1])), [b]),
            (self.vectors(input=[tokenize(one) for one in two]), [a, b]),
            (self.vectors(input=two, encoding_format="float"), [a, b]),
        ]:
            self.assertEqual(len(got), len(wanted))
            for x, y in zip(got, wanted):
                self.assertLess(max(abs(p - q) for p, q in zip(x, y)), 1e-6)
        last = self.vectors(input=two[0], extra_body={"pooling": "last", "normalize": False})[0]
        self.assertNotAlmostEqual(sum(x * x for x in last), 1, places=3)
        usage = client.embeddings.create(model="letters", input=two).usage
        self.assertEqual((usage.prompt_tokens, usage.total_tokens), (21, 21))

    def test_refusals(self):
        wrong = [{"input": []}, {"input": ""}, {"input": [""]}, {"input": "x", "dimensions": 3},
                 {"input": "x" * 200}, {"input": [10**6]}, {"input": "\u4e00"}]  # fmt: skip
        for fields in wrong:
            with self.assertRaises(openai.BadRequestError, msg=fields):
                self.vectors(**fields)


class Errors(unittest.TestCase):
    def test_bad_requests(self):
        wrong = [
            {"temperature": -1}, {"temperature": 3}, {"top_p": 2}, {"n": 0}, {"n": 10**6}, {"max_tokens": -1},
            {"best_of": 1, "n": 2}, {"best_of": 3, "stream": True}, {"logprobs": 100}, {"suffix": "end"},
            {"stop": ""}, {"stop": ["a"] * 100}, {"presence_penalty": 9}, {"logit_bias": {"x": 1}},
            {"logit_bias": {"999999": 1}}, {"logit_bias": {"1": 1000}}, {"prompt": [10**6]}, {"prompt": [[]]},
            {"prompt": "x" * 1000}, {"prompt": "\u4e00"}, {"extra_body": {"top_k": "many"}},
            {"extra_body": {"stream_options": "all"}}, {"extra_body": {"prompt": {"a": 1}}},
        ]  # fmt: skip
        for fields in wrong:
            with self.assertRaises(openai.BadRequestError, msg=fields) as caught:
                answer = complete(**fields)
                if fields.get("stream"):
                    list(answer)
            self.assertTrue(caught.exception.body["message"])
            self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_a_wrong_field_is_named(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(prompt="a" * (CONTEXT + 1))
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_what_is_not_there(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            complete(model="nobody")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.NotFoundError):
            client.responses.create(model="talker", input="hello")

    def test_keys(self):
        for key in ["wrong", KEY + "x"]:
            with openai.OpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as other:
                with self.assertRaises(openai.AuthenticationError) as caught:
                    other.models.list()
                self.assertEqual(caught.exception.code, "invalid_api_key")

    def test_a_full_queue(self):
        with Service(program, "--slots", "1", "--queue", "1", keys=False) as small:
            with openai.OpenAI(base_url=small.url + "/v1", api_key="none", max_retries=0) as one:
                refused, written = [], []

                def ask(_):
                    try:
                        written.append(one.completions.create(model="letters", prompt=PROMPT, n=2, max_tokens=100))
                    except openai.RateLimitError as error:
                        refused.append(error)

                with concurrent.futures.ThreadPoolExecutor(16) as threads:
                    list(threads.map(ask, range(64)))
                self.assertTrue(written)
                self.assertTrue(refused)
                self.assertEqual(refused[0].response.headers["retry-after"], "1")
                self.assertEqual(len(written) + len(refused), 64)
                with self.assertRaises(openai.BadRequestError):
                    one.completions.create(model="letters", prompt=PROMPT, n=3)  # never has room
            with openai.OpenAI(base_url=small.url + "/v1", api_key="none", max_retries=50) as patient:
                with concurrent.futures.ThreadPoolExecutor(4) as threads:
                    answers = list(
                        threads.map(lambda _: patient.completions.create(model="letters", prompt=PROMPT, n=2), range(8))
                    )
                self.assertEqual(len(answers), 8)


class Curl(unittest.TestCase):
    def ask(self, path, *words, key=KEY):
        done = subprocess.run(
            ["curl", "-sS", "-w", "\n%{http_code}", "-H", "Authorization: Bearer " + key, *words, service.url + path],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        body, status = done.stdout.rsplit("\n", 1)
        return int(status), body

    def post(self, path, body):
        text = body if isinstance(body, str) else json.dumps(body)
        return self.ask(path, "-H", "Content-Type: application/json", "--data-binary", text)

    def test_tokens(self):
        status, body = self.post("/tokenize", {"model": "talker", "content": "aé", "with_pieces": True})
        answer = json.loads(body)
        self.assertEqual((status, answer["tokens"], answer["count"]), (200, [97, 0xC3, 0xA9], 3))
        self.assertEqual(answer["pieces"], ["a", "bytes:\\xc3", "bytes:\\xa9"])
        status, body = self.post("/detokenize", {"model": "talker", "tokens": answer["tokens"]})
        self.assertEqual((status, json.loads(body)["content"]), (200, "aé"))
        self.assertEqual(self.post("/detokenize", {"model": "talker", "tokens": [10**6]})[0], 400)
        self.assertEqual(self.post("/tokenize", {"model": "letters", "content": "\u4e00"})[0], 400)

    def test_a_stream_is_lines_of_data(self):
        status, body = self.post(
            "/v1/completions", {"model": "letters", "prompt": PROMPT, "max_tokens": 3, "stream": True}
        )
        self.assertEqual(status, 200)
        events = [event for event in body.split("\n\n") if event]
        self.assertTrue(all(event.startswith("data: ") for event in events), body)
        self.assertEqual(events[-1], "data: [DONE]")
        self.assertEqual(json.loads(events[0][6:])["object"], "text_completion")

    def test_what_is_no_request(self):
        for body in ["", "{", "[]", "1", '"x"', '{"prompt":', "\x01", "[" * 10000]:
            self.assertEqual(self.post("/v1/completions", body)[0], 400, body[:20])
        self.assertEqual(self.ask("/v1/completions")[0], 405)
        self.assertEqual(self.ask("/nothing")[0], 404)
        self.assertEqual(self.ask("/v1/models", key="")[0], 401)
        self.assertEqual(self.ask("/v1/models", "-H", "Host: evil.example")[0], 403)
        self.assertEqual(self.ask("/health", key="")[0], 200)
        program.write("long.json", '{"prompt":"' + "x" * (9 << 20) + '"}')
        self.assertEqual(self.ask("/v1/completions", "--data-binary", "@" + program.file("long.json"))[0], 413)


if __name__ == "__main__":
    program = Program(sys.argv.pop(1))
    unittest.main()
