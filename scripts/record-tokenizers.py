#!/usr/bin/env python3
"""Trains three small tokenizers on this project's documents, and records how the Hugging Face library encodes 1,000 texts and decodes
the ids again. Tests compare our tokenizers with the records.

    python3 -m venv ../venv && ../venv/bin/pip install tokenizers==0.23.2
    ../venv/bin/python scripts/record-tokenizers.py

Writes test/fixtures/tokenizers/*.json.
"""

import json
import random
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "test/fixtures/tokenizers"
VOCABULARY = 420
TEXTS = 1000


def byte_level():
    """A tokenizer like GPT-2's with two special tokens, one of them for chats. `main` adds a token that is ordinary text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<|user|>"]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, special_tokens=special)
    return tokenizer, trainer


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=["[UNK]", "[CLS]", "[SEP]"])
    return tokenizer, trainer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    return tokenizer, trainer


def texts(corpus, draw):
    """Pieces of the documents, rare characters, white space, special tokens written out, and mixtures."""
    rare = "äéßÄÉ̈ñøłçžğαβγλΩджяהשא한글漢字仮名ｶﾅ１２３²½ﬁ🦜🙂👍🏽‍👩\u00a0\u0085\u200b\ufeff\u2028\t\r\x00\x7f\x1b'’“”–…"
    special = ["<|endoftext|>", "<|user|>", "[SEP]", "[CLS]", "</s>", "<unk>", " gpt2.ts ", "``", "##", "▁"]
    found = ["", " ", "\n", "  ", " \n ", "'s", "don't", "'S", "a" * 40]
    while len(found) < TEXTS:
        parts = []
        for _ in range(draw.randint(1, 3)):
            kind = draw.random()
            if kind < 0.55:
                start = draw.randrange(len(corpus) - 40)
                parts.append(corpus[start : start + draw.randint(1, 24)])
            elif kind < 0.75:
                parts.append("".join(draw.choice(rare) for _ in range(draw.randint(1, 5))))
            elif kind < 0.85:
                parts.append("".join(draw.choice(" \n\t  ") for _ in range(draw.randint(1, 4))))
            elif kind < 0.92:
                parts.append(draw.choice(special))
            elif kind < 0.96:
                parts.append(str(draw.randrange(10 ** draw.randint(1, 9))))
            else:
                parts.append(chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])))
        found.append("".join(parts))
    return found


def main():
    documents = [path.read_text("utf8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]]
    inputs = texts("\n".join(documents), random.Random(7))
    OUT.mkdir(parents=True, exist_ok=True)
    records = {"library": f"tokenizers {tokenizers.__version__}", "texts": inputs, "tokenizers": {}}
    for make in (byte_level, word_piece, unigram):
        tokenizer, trainer = make()
        tokenizer.train_from_iterator(documents, trainer)
        if make is byte_level:
            tokenizer.add_tokens([AddedToken(" gpt2.ts", normalized=False)])
        name = make.__name__.replace("_", "-")
        (OUT / f"{name}.json").write_text(tokenizer.to_str() + "\n", "utf8")
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in inputs]
        decoded = [tokenizer.decode(each, skip_special_tokens=True) for each in ids]
        # Record a decoded text only if it differs from the input.
        other = {index: text for index, text in enumerate(decoded) if text != inputs[index]}
        records["tokenizers"][name] = {"ids": [" ".join(map(str, each)) for each in ids], "decoded": other}
        print(f"{name}: {tokenizer.get_vocab_size()} ids, {sum(map(len, ids))} tokens, {len(other)} texts change")
    (OUT / "records.json").write_text(json.dumps(records, ensure_ascii=True, indent=0) + "\n", "utf8")


if __name__ == "__main__":
    main()
