#!/usr/bin/python3
"""Writes golden values of one training step of small Transformers, computed by an independent implementation.

The model is written in plain PyTorch operations in double precision, one sentence at a time, with gradients by
autograd: nothing of it follows the C++ code but the names of the parameters. Needs PyTorch (Debian: python3-torch).

    tests/golden/model/make_golden.py [FOLDER]

Each file holds one JSON object: the configuration, the batch, the weights (f32 values), and what comes out: sums over all
target tokens of the label-smoothed loss and of the negative log-likelihood, the logits, and the gradient of
(label-smoothed loss / target tokens) for every weight. Arrays are flat, row-major.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys

import torch

SMOOTHING = 0.1
BOS, EOS = 1, 2

VARIANTS = {
    "pre_tied_all": dict(
        encoder_layers=2,
        decoder_layers=2,
        width=8,
        heads=2,
        inner=12,
        norm="pre",
        tied_embeddings="all",
        attention_bias=False,
        vocabulary=13,
        seed=1,
    ),
    "post_untied": dict(
        encoder_layers=1,
        decoder_layers=2,
        width=6,
        heads=3,
        inner=10,
        norm="post",
        tied_embeddings="none",
        attention_bias=True,
        vocabulary=11,
        seed=2,
    ),
    "modern": dict(
        encoder_layers=2,
        decoder_layers=1,
        width=8,
        heads=2,
        inner=6,
        norm="pre",
        norm_kind="rms",
        activation="swiglu",
        positions="rotary",
        tied_embeddings="all",
        attention_bias=False,
        vocabulary=13,
        seed=3,
    ),
}
# Pieces without <s> and </s>: unequal lengths, a one-piece source, an empty target, repeated ids.
SENTENCES = [
    ([3, 4, 5, 6, 7], [8, 9, 10]),
    ([10], [3, 3, 4, 5]),
    ([9, 9, 9, 8, 0, 7, 6], []),
    ([5, 3], [7, 0, 6, 5, 4, 3, 10, 8]),
]


class Weights(dict):
    """Named weights, f32 values held in double."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(config["seed"])
        self.rms = config.get("norm_kind") == "rms"
        self.gated = config.get("activation") == "swiglu"

    def make(self, name: str, *shape: int, around: float = 0.0) -> None:
        noise = torch.randn(shape, generator=self.generator, dtype=torch.float32)
        fan = shape[-1] if len(shape) > 1 else 16
        value = (around + noise / math.sqrt(fan)).to(torch.float32)
        self[name] = value.double().requires_grad_()

    def norm(self, name: str, width: int) -> None:
        self.make(name + ".gain", width, around=1.0)
        if not self.rms:
            self.make(name + ".bias", width)

    def linear(self, name: str, inputs: int, outputs: int, bias: bool) -> None:
        self.make(name + ".weight", outputs, inputs)
        if bias:
            self.make(name + ".bias", outputs)

    def feed_forward(self, name: str, width: int, inner: int) -> None:
        self.norm(name + "_norm", width)
        self.linear(name + ".first", width, 2 * inner if self.gated else inner, True)
        self.linear(name + ".second", inner, width, True)


def make_weights(c: dict) -> Weights:
    w, d, bias = Weights(c), c["width"], c["attention_bias"]
    tied = c["tied_embeddings"] == "all"
    for table in ["embedding"] if tied else ["encoder.embedding", "decoder.embedding", "output"]:
        w.make(table, c["vocabulary"], d)
    for i in range(c["encoder_layers"]):
        name = f"encoder.{i}"
        w.norm(name + ".attention_norm", d)
        w.linear(name + ".attention.qkv", d, 3 * d, bias)
        w.linear(name + ".attention.output", d, d, bias)
        w.feed_forward(name + ".feed_forward", d, c["inner"])
    for i in range(c["decoder_layers"]):
        name = f"decoder.{i}"
        w.norm(name + ".self_norm", d)
        w.linear(name + ".self.qkv", d, 3 * d, bias)
        w.linear(name + ".self.output", d, d, bias)
        w.norm(name + ".cross_norm", d)
        w.linear(name + ".cross.query", d, d, bias)
        w.linear(name + ".cross.key_value", d, 2 * d, bias)
        w.linear(name + ".cross.output", d, d, bias)
        w.feed_forward(name + ".feed_forward", d, c["inner"])
    if c["norm"] == "pre":
        w.norm("encoder.norm", d)
        w.norm("decoder.norm", d)
    return w


class Model:
    """One sentence pair at a time; tensors are [length, width]."""

    def __init__(self, config: dict, weights: Weights) -> None:
        self.c, self.w = config, weights

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        if self.w.rms:
            return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.w[name + ".gain"]
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.w[name + ".gain"] + self.w[name + ".bias"]

    def residual(self, name: str, x: torch.Tensor, body) -> torch.Tensor:
        if self.c["norm"] == "pre":
            return x + body(self.norm(name, x))
        return self.norm(name, x + body(x))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        heads, width = self.c["heads"], self.c["width"] // self.c["heads"]
        parts = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[:, part] @ k[:, part].T / math.sqrt(width)
            if causal:
                later = torch.ones_like(scores).triu(1) > 0
                scores = scores.masked_fill(later, -math.inf)
            parts.append(torch.softmax(scores, -1) @ v[:, part])
        return torch.cat(parts, -1)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        """Each pair of features of a head as a complex number, times e^(i position frequency)."""
        length, (heads, width) = len(x), (self.c["heads"], self.c["width"] // self.c["heads"])
        pairs = x.reshape(length, heads, 2, width // 2)
        frequency = 10000 ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
        turned = torch.complex(pairs[:, :, 0], pairs[:, :, 1]) * torch.polar(torch.ones_like(angle), angle)[:, None]
        return torch.stack([turned.real, turned.imag], 2).reshape(length, heads * width)

    def self_attention(self, name: str, x: torch.Tensor, causal: bool) -> torch.Tensor:
        q, k, v = self.linear(name + ".qkv", x).chunk(3, -1)
        if self.c.get("positions") == "rotary":
            q, k = self.rotated(q), self.rotated(k)
        return self.linear(name + ".output", self.attend(q, k, v, causal))

    def cross_attention(self, name: str, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        k, v = self.linear(name + ".key_value", memory).chunk(2, -1)
        return self.linear(name + ".output", self.attend(self.linear(name + ".query", x), k, v, False))

    def feed_forward(self, name: str, x: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(name + ".first", x)
        if self.w.gated:
            gate, up = hidden.chunk(2, -1)
            return self.linear(name + ".second", gate * torch.sigmoid(gate) * up)
        return self.linear(name + ".second", torch.relu(hidden))

    def embed(self, table: str, ids: list[int]) -> torch.Tensor:
        width = self.c["width"]
        x = self.w[table][torch.tensor(ids)] * math.sqrt(width)
        if self.c.get("positions") == "rotary":
            return x
        positions = torch.tensor(
            [
                [(math.sin if i % 2 == 0 else math.cos)(p / 10000 ** (2 * (i // 2) / width)) for i in range(width)]
                for p in range(len(ids))
            ],
            dtype=torch.float64,
        )
        return x + positions

    def logits(self, source: list[int], target: list[int]) -> torch.Tensor:
        tied = self.c["tied_embeddings"] == "all"
        memory = self.embed("embedding" if tied else "encoder.embedding", source)
        for i in range(self.c["encoder_layers"]):
            name = f"encoder.{i}"
            memory = self.residual(
                name + ".attention_norm", memory, lambda h: self.self_attention(name + ".attention", h, False)
            )
            memory = self.residual(
                name + ".feed_forward_norm", memory, lambda h: self.feed_forward(name + ".feed_forward", h)
            )
        x = self.embed("embedding" if tied else "decoder.embedding", target)
        if self.c["norm"] == "pre":
            memory = self.norm("encoder.norm", memory)
        for i in range(self.c["decoder_layers"]):
            name = f"decoder.{i}"
            x = self.residual(name + ".self_norm", x, lambda h: self.self_attention(name + ".self", h, True))
            x = self.residual(name + ".cross_norm", x, lambda h: self.cross_attention(name + ".cross", h, memory))
            x = self.residual(name + ".feed_forward_norm", x, lambda h: self.feed_forward(name + ".feed_forward", h))
        if self.c["norm"] == "pre":
            x = self.norm("decoder.norm", x)
        return x @ self.w["embedding" if tied else "output"].T


def flat(tensor: torch.Tensor) -> list[float]:
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def golden(config: dict) -> dict:
    weights = make_weights(config)
    model = Model(config, weights)
    loss = nll = torch.zeros((), dtype=torch.float64)
    all_logits = []
    tokens = 0
    for source, target in SENTENCES:
        logits = model.logits(source + [EOS], [BOS] + target)
        log_p = logits - torch.logsumexp(logits, -1, keepdim=True)
        expected = torch.tensor(target + [EOS])
        q = torch.full_like(log_p, SMOOTHING / config["vocabulary"])
        q[torch.arange(len(expected)), expected] += 1 - SMOOTHING
        loss = loss - (q * log_p).sum()
        nll = nll - log_p[torch.arange(len(expected)), expected].sum()
        tokens += len(expected)
        all_logits.append(logits)
    (loss / tokens).backward()
    return {
        "config": config,
        "label_smoothing": SMOOTHING,
        "sentences": [{"source": s, "target": t} for s, t in SENTENCES],
        "loss": float(f"{loss.item():.12g}"),
        "nll": float(f"{nll.item():.12g}"),
        "logits": flat(torch.cat(all_logits)),
        "parameters": {
            name: {"shape": list(value.shape), "weight": flat(value), "gradient": flat(value.grad)}
            for name, value in weights.items()
        },
    }


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, config in VARIANTS.items():
        text = json.dumps(golden(config), separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
