#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizers.json: small tokenizers of the kinds that published models have, and
the ids that Hugging Face's `tokenizers` (0.23) gives for texts; and a vocabulary with scores and the
ids of `sentencepiece` (0.2):
  scripts/tokenizer_goldens.py > tests/fixtures/tokenizers.json
A tokenizer is one of `bases`, changed by a JSON merge patch.
"""

import io
import json

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = (
    "The quick brown fox jumps over the lazy dog. Where there is a will, there is a way; they're all "
    "here and we'll see what the others have. It's the best of the rest, isn't it? 1234 12 5678\n"
    "    return the_value + other_value  # with the same thing\n\nCafé naïve, der Fuß, très bien. "
) * 3

PARTS = [
    "the", "The", " th", "is", " ", " ", "  ", "    ", "\n", "\n\n", "\t", "\r\n", "'s", "'LL", "'", "1", "12",
    "345", "6789012", ".", ",", "?!", "_", "caf", "\u00e9", "e\u0301", "a\u0323\u0301", "\u212b", "\u2581", "\u2581\u2581",
    "\u4e2d\u6587", "\ud55c", "\u1112\u1161\u11ab", "\u0416", "\u00bd", "\u0663", "\U0001f44d\U0001f3fd", "\u200d", "\u3000", "\u0e01",
    "\x04", "<s>", "</s>", "<unk>", "<think>", "<|end|>", "<|mid|>", "WORD", "<0x41>", "z", "\uf900", "\u8c48",
]
TEXTS = ["a 12", "  The caf\u00e9s'S  e\u0301\u4e2d\n\n 1234 ", "x<|end|>  the <think>\u2581y", "<s> is</s>", " WORD WORDs", ""]


def byte_base(alphabet):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=310 if alphabet else 120, initial_alphabet=alphabet,
                                  special_tokens=["<s>", "</s>", "<|end|>"], show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    return json.loads(tokenizer.to_str())


def char_base():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)],
        show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    base = json.loads(tokenizer.to_str())
    base["added_tokens"] = base["added_tokens"][:3]
    base["pre_tokenizer"] = None
    mark = {"String": "\u2581"}
    base["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": mark, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return base


def added(base, *more):
    """The added tokens of a base, and more: (content, flags that are true)."""
    vocab = base["model"]["vocab"]
    tokens = list(base["added_tokens"])
    free = max(vocab.values()) + 1
    for content, *flags in more:
        token = {"id": vocab.get(content, free), "content": content}
        free += token["id"] == free
        for flag in ["single_word", "lstrip", "rstrip", "normalized", "special"]:
            token[flag] = flag in flags
        tokens.append(token)
    return sorted(tokens, key=lambda token: token["id"])


def split(regex):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


def template(before, behind):
    item = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    text = [item(name) for name, _ in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [item(name) for name, _ in behind]
    return {"type": "TemplateProcessing", "single": text, "pair": text + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in before + behind}}


def cases(bases):
    contraction = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    rest = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    llama3 = contraction + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + rest
    qwen2 = contraction + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + rest
    nanochat = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
                r"\s*[\r\n]|\s+(?!\S)|\s+")
    prepend = {"type": "Prepend", "prepend": "\u2581"}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    llama2 = {"type": "Sequence", "normalizers": [prepend, replace]}
    strip = {"decoder": {"type": "Sequence", "decoders": bases["chars"]["decoder"]["decoders"] + [
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    digits = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    metaspace = lambda scheme, split: {
        "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
    words = added(bases["bytes"], ("<think>",), ("<|mid|>", "special", "lstrip"), ("WORD", "single_word"),
                  ("\uf900", "normalized"), ("  ", "normalized"))
    flags = added(bases["chars"], ("<|end|>", "special", "rstrip"), ("<|mid|>", "lstrip", "rstrip", "special"),
                  ("\uf900", "normalized"), ("WORD", "single_word", "special"))
    gemma = added(bases["chars"], ("\u2581\u2581",), ("\n",), ("\n\n",), ("<think>",))
    return [
        ("smollm", "partial", {"pre_tokenizer": digits}),
        ("unknown", "partial", {"model": {"unk_token": "</s>", "fuse_unk": True}}),
        ("llama3", "bytes", {"pre_tokenizer": split(llama3), "post_processor": template([("<s>", 0)], []),
                             "model": {"ignore_merges": True, "vocab": {"caf\u00c3\u00a9": 310, "\u0120WORD": 311}}}),
        ("qwen2", "bytes", {"pre_tokenizer": split(qwen2), "normalizer": {"type": "NFC"},
                            "added_tokens": added(bases["bytes"], ("<think>",), ("<|mid|>", "special"))}),
        ("nanochat", "bytes", {"pre_tokenizer": split(nanochat)}),
        ("added", "bytes", {"normalizer": {"type": "NFC"}, "added_tokens": words}),
        ("llama2", "chars", {"normalizer": llama2, "post_processor": template([("<s>", 1)], [("</s>", 2)]), **strip}),
        ("flags", "chars", {"normalizer": llama2, "added_tokens": flags, **strip}),
        ("first", "chars", {"pre_tokenizer": metaspace("first", False), **strip}),
        ("always", "chars", {"pre_tokenizer": metaspace("always", True), **strip}),
        ("gemma", "chars", {"normalizer": replace, "added_tokens": gemma, "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}}),
    ]


def patched(base, patch):
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        result[key] = patched(result.get(key), value)
    return result


def random_texts():
    state = 1
    for round in range(400):
        text = ""
        for _ in range(1 + round % 12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            text += PARTS[(state >> 33) % len(PARTS)]
        yield text


def hash_of(lists):
    value = 0xCBF29CE484222325
    for ids in lists:
        for id in ids + [-1]:
            value = (value ^ (id & 0xFFFFFFFF)) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def scored():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split("\n")), model_writer=model, model_type="bpe", vocab_size=380, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_by_whitespace=False,
        split_by_number=False, split_by_unicode_script=False, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.vocab_size())
    # Texts that have none of its special tokens, which are no text for SentencePiece.
    texts = [text for text in random_texts() if "<" not in text and text]
    return {"pieces": [processor.id_to_piece(id) for id in ids if not processor.is_byte(id)],
            "texts": len(texts), "ordinary": hash_of(processor.encode(text) for text in texts),
            "ids": processor.encode(TEXTS[1])}


def main():
    bases = {"bytes": byte_base(pre_tokenizers.ByteLevel.alphabet()), "partial": byte_base([]), "chars": char_base()}
    out = {"bases": bases, "parts": PARTS, "texts": TEXTS, "tokenizers": []}
    for name, base, patch in cases(bases):
        tokenizer = Tokenizer.from_str(json.dumps(patched(bases[base], patch)))
        ids = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        expected = [ids(text) for text in TEXTS]
        entry = {"name": name, "base": base, "patch": patch, "ids": expected,
                 "decoded": [tokenizer.decode(some, skip_special_tokens=False) for some in expected],
                 "whole": tokenizer.encode("the", add_special_tokens=True).ids,
                 "allowed": hash_of(ids(text) for text in random_texts())}
        tokenizer.encode_special_tokens = True
        entry["ordinary"] = hash_of(ids(text) for text in random_texts())
        out["tokenizers"].append(entry)
    out["scored"] = scored()
    print(json.dumps(out, ensure_ascii=True, separators=(",", ":")))


main()
