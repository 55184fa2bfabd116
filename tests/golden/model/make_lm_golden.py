#!/usr/bin/python3
"""Writes golden values of one training step of small language models, computed by an independent implementation.

Plain Python in double precision, one sequence at a time, with gradients by central differences: nothing follows the C++ code but
the names of the parameters. Takes a minute.

    tests/golden/model/make_lm_golden.py [FOLDER]

The files have the form of make_golden.py, but a sequence has the members in and out, the tokens that the model reads and predicts.
"""

from __future__ import annotations

import json
import math
import pathlib
import random
import struct
import sys

SMOOTHING = 0.1
STEP = 1e-5

VARIANTS = {
    "lm_pre_tied": dict(decoder_layers=2, width=8, heads=2, inner=12, norm="pre", tied_embeddings="all", seed=1),
    "lm_post_untied": dict(decoder_layers=1, width=6, heads=3, inner=10, norm="post", tied_embeddings="none", seed=2),
}
# Unequal lengths, one of a single target, repeated tokens.
SEQUENCES = [[0, 3, 4, 5, 6, 2], [0, 8], [0, 1, 1, 1, 7, 0, 2, 8, 3]]
VOCABULARY = 9

Matrix = list[list[float]]


def single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


class Weights(dict):
    """Named matrices; a vector is a matrix of one row."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.shapes: dict[str, list[int]] = {}

    def make(self, name: str, *shape: int, around: float = 0.0) -> None:
        rows, columns = (1, shape[0]) if len(shape) == 1 else shape
        deviation = 1 / math.sqrt(columns if len(shape) > 1 else 16)
        self.shapes[name] = list(shape)
        self[name] = [[single(around + self.random.gauss(0, deviation)) for _ in range(columns)] for _ in range(rows)]


def make_weights(c: dict) -> Weights:
    w, d = Weights(c["seed"]), c["width"]
    tables = ["embedding"] if c["tied_embeddings"] == "all" else ["embedding", "output"]
    for table in tables:
        w.make(table, VOCABULARY, d)
    for i in range(c["decoder_layers"]):
        name = f"decoder.{i}"
        for norm in ("attention_norm", "feed_forward_norm"):
            w.make(f"{name}.{norm}.gain", d, around=1.0)
            w.make(f"{name}.{norm}.bias", d)
        w.make(f"{name}.attention.qkv.weight", 3 * d, d)
        w.make(f"{name}.attention.output.weight", d, d)
        w.make(f"{name}.feed_forward.first.weight", c["inner"], d)
        w.make(f"{name}.feed_forward.first.bias", c["inner"])
        w.make(f"{name}.feed_forward.second.weight", d, c["inner"])
        w.make(f"{name}.feed_forward.second.bias", d)
    if c["norm"] == "pre":
        w.make("decoder.norm.gain", d, around=1.0)
        w.make("decoder.norm.bias", d)
    return w


class Model:
    """Rows of a matrix are the positions of a sequence."""

    def __init__(self, config: dict, weights: Weights) -> None:
        self.c, self.w = config, weights

    def linear(self, name: str, x: Matrix) -> Matrix:
        weight, bias = self.w[name + ".weight"], self.w.get(name + ".bias")
        offset = bias[0] if bias else [0.0] * len(weight)
        return [[sum(map(float.__mul__, row, line)) + b for line, b in zip(weight, offset)] for row in x]

    def norm(self, name: str, x: Matrix) -> Matrix:
        gain, bias = self.w[name + ".gain"][0], self.w[name + ".bias"][0]
        rows = []
        for row in x:
            mean = sum(row) / len(row)
            scale = 1 / math.sqrt(sum((value - mean) ** 2 for value in row) / len(row) + 1e-5)
            rows.append([(value - mean) * scale * g + b for value, g, b in zip(row, gain, bias)])
        return rows

    def residual(self, name: str, x: Matrix, body) -> Matrix:
        def add(a: Matrix, b: Matrix) -> Matrix:
            return [[p + q for p, q in zip(one, other)] for one, other in zip(a, b)]

        if self.c["norm"] == "pre":
            return add(x, body(self.norm(name, x)))
        return self.norm(name, add(x, body(x)))

    def attention(self, name: str, x: Matrix) -> Matrix:
        width, heads = self.c["width"], self.c["heads"]
        size = width // heads
        qkv = self.linear(name + ".qkv", x)
        rows = []
        for t, row in enumerate(qkv):
            out: list[float] = []
            for head in range(heads):
                q, k, v = (slice(part * width + head * size, part * width + (head + 1) * size) for part in range(3))
                scores = [sum(map(float.__mul__, row[q], qkv[s][k])) / math.sqrt(size) for s in range(t + 1)]
                shares = [math.exp(score - max(scores)) for score in scores]
                for column in range(size):
                    mixed = sum(share * qkv[s][v][column] for s, share in enumerate(shares))
                    out.append(mixed / sum(shares))
            rows.append(out)
        return self.linear(name + ".output", rows)

    def feed_forward(self, name: str, x: Matrix) -> Matrix:
        hidden = [[max(value, 0.0) for value in row] for row in self.linear(name + ".first", x)]
        return self.linear(name + ".second", hidden)

    def embed(self, tokens: list[int]) -> Matrix:
        width = self.c["width"]
        rows = []
        for position, token in enumerate(tokens):
            angles = [position / 10000 ** (2 * (i // 2) / width) for i in range(width)]
            waves = [math.sin(angle) if i % 2 == 0 else math.cos(angle) for i, angle in enumerate(angles)]
            rows.append([math.sqrt(width) * e + wave for e, wave in zip(self.w["embedding"][token], waves)])
        return rows

    def logits(self, tokens: list[int]) -> Matrix:
        x = self.embed(tokens)
        for i in range(self.c["decoder_layers"]):
            name = f"decoder.{i}"
            x = self.residual(name + ".attention_norm", x, lambda h: self.attention(name + ".attention", h))
            x = self.residual(name + ".feed_forward_norm", x, lambda h: self.feed_forward(name + ".feed_forward", h))
        if self.c["norm"] == "pre":
            x = self.norm("decoder.norm", x)
        table = self.w["output" if "output" in self.w else "embedding"]
        return [[sum(map(float.__mul__, row, line)) for line in table] for row in x]


def losses(model: Model) -> tuple[float, float, int, Matrix]:
    """Sums of the label-smoothed loss and of -log p, target tokens, logits."""
    loss = nll = 0.0
    rows: Matrix = []
    for sequence in SEQUENCES:
        logits = model.logits(sequence[:-1])
        rows += logits
        for row, target in zip(logits, sequence[1:]):
            largest = max(row)
            normaliser = largest + math.log(sum(math.exp(value - largest) for value in row))
            nll += normaliser - row[target]
            spread = normaliser - sum(row) / len(row)
            loss += (1 - SMOOTHING) * (normaliser - row[target]) + SMOOTHING * spread
    return loss, nll, len(rows), rows


def gradient(model: Model, matrix: Matrix, tokens: int) -> list[float]:
    """The gradient of loss / tokens, by central differences."""
    slopes = []
    for row in matrix:
        for column, value in enumerate(row):
            row[column] = value + STEP
            above = losses(model)[0]
            row[column] = value - STEP
            slopes.append((above - losses(model)[0]) / (2 * STEP * tokens))
            row[column] = value
    return slopes


def flat(matrix: Matrix) -> list[float]:
    return [float(f"{value:.9g}") for row in matrix for value in row]


def golden(config: dict) -> dict:
    weights = make_weights(config)
    model = Model(config, weights)
    loss, nll, tokens, logits = losses(model)
    return {
        "config": config | {"encoder_layers": 0, "attention_bias": False, "vocabulary": VOCABULARY},
        "label_smoothing": SMOOTHING,
        "sequences": [{"in": sequence[:-1], "out": sequence[1:]} for sequence in SEQUENCES],
        "loss": float(f"{loss:.12g}"),
        "nll": float(f"{nll:.12g}"),
        "logits": flat(logits),
        "parameters": {
            name: {
                "shape": weights.shapes[name],
                "weight": flat(matrix),
                "gradient": flat([gradient(model, matrix, tokens)]),
            }
            for name, matrix in weights.items()
        },
    }


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, config in VARIANTS.items():
        text = json.dumps(golden(config), separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
