#!/usr/bin/env python3
"""Measures updates of the same model in PyTorch: a post-norm encoder-decoder Transformer (Vaswani et al. 2017)
whose one embedding matrix serves source, target and output; dropout on embeddings and sub-layer outputs; label smoothing
0.1; Adam under the Noam schedule; one batch of random tokens, again and again. Prints one line of JSON.

Needs Debian's python3-torch and libopenblas0-openmp; run it with /usr/bin/python3. scripts/bench.sh train-step
--against-pytorch does."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time

SHAPES = {"tiny": (4, 128, 4, 256, 10000, 0.3), "base": (6, 512, 8, 2048, 32000, 0.1)}
# Read while Python and its libraries load. The fastest kernels, and memory that is neither returned nor mapped in small
# pages: without the latter large tensors are cleared in every update.
TUNED = {
    "ATEN_CPU_CAPABILITY": "avx512",
    "OPENBLAS_CORETYPE": "SKYLAKEX",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184"
    ":glibc.malloc.trim_threshold=17179869184",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=sorted(SHAPES), default="base")
    parser.add_argument(
        "--dtype", choices=["bf16", "fp32"], default="bf16", help="of products; weights and Adam are fp32"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, choices=[1], default=1, help="this script has one")
    parser.add_argument("--batch-sentences", type=int, default=64)
    parser.add_argument("--src-len", type=int, default=32)
    parser.add_argument("--tgt-len", type=int, default=32)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--attn-dropout", type=float, default=0.0)
    parser.add_argument("--act-dropout", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup-steps", type=int, default=2)
    parser.add_argument("--tuned", action="store_true", help="with the fastest settings known, for AVX-512")
    return parser.parse_args()


OPTIONS = arguments()
if OPTIONS.tuned and any(os.environ.get(name) != value for name, value in TUNED.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | TUNED)
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Attention(nn.Module):
    """Queries of x against keys and values of `memory`, or of x itself; each as one product for all heads."""

    def __init__(self, width: int, heads: int, dropout: float, own: bool) -> None:
        super().__init__()
        self.heads, self.dropout, self.own = heads, dropout, own
        self.inward = nn.Linear(width, 3 * width if own else width)
        self.memory = None if own else nn.Linear(width, 2 * width)
        self.outward = nn.Linear(width, width)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.memory is None:
            parts = self.inward(x).chunk(3, dim=-1)
        else:
            parts = (self.inward(x), *self.memory(memory).chunk(2, dim=-1))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
        weights = functional.softmax(scores if mask is None else scores + mask.to(scores.dtype), dim=-1)
        if self.dropout > 0:
            weights = functional.dropout(weights, self.dropout)
        return self.outward((weights @ value).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(width, inner), nn.Linear(inner, width), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.up(x), inplace=True)
        return self.down(functional.dropout(hidden, self.dropout) if self.dropout > 0 else hidden)


class Block(nn.Module):
    """A layer: its sub-layers one after another, each y = norm(x + dropout(sub-layer(x)))."""

    def __init__(
        self, decodes: bool, width: int, heads: int, inner: int, options: argparse.Namespace, dropout: float
    ) -> None:
        super().__init__()
        self.own = Attention(width, heads, options.attn_dropout, True)
        self.cross = Attention(width, heads, options.attn_dropout, False) if decodes else None
        self.feed = FeedForward(width, inner, options.act_dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decodes else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = self.norms[0](x + self.dropout(self.own(x, mask=mask)))
        if self.cross is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory)))
        return self.norms[-1](x + self.dropout(self.feed(x)))


class Transformer(nn.Module):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        layers, self.width, heads, inner, vocabulary, dropout = SHAPES[options.preset]
        self.vocabulary = options.vocabulary or vocabulary
        self.p = dropout if options.dropout is None else options.dropout
        self.table = nn.Embedding(self.vocabulary, self.width)
        self.encoder = nn.ModuleList(Block(False, self.width, heads, inner, options, self.p) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(True, self.width, heads, inner, options, self.p) for _ in range(layers))
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and "table" not in name:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.table.weight, std=self.width**-0.5)
        self.register_buffer("positions", self.sinusoids(max(options.src_len, options.tgt_len)))

    def sinusoids(self, length: int) -> torch.Tensor:
        angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, self.width, 2) / self.width)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return functional.dropout(self.table(ids) * math.sqrt(self.width) + self.positions[: ids.shape[1]], self.p)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, x = self.embed(source), self.embed(target)
        mask = torch.full((target.shape[1],) * 2, -math.inf).triu(1)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return functional.linear(x, self.table.weight)


def train(options: argparse.Namespace) -> tuple[list[float], list[float], Transformer]:
    """Returns seconds and loss of every update, and the model."""
    torch.manual_seed(1)
    model = Transformer(options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    noam = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: model.width**-0.5 * min((done + 1) ** -0.5, (done + 1) * 4000**-1.5)
    )
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    source = torch.randint(3, model.vocabulary, (options.batch_sentences, options.src_len))
    output = torch.randint(3, model.vocabulary, (options.batch_sentences, options.tgt_len))
    target = torch.cat([torch.ones_like(output[:, :1]), output[:, :-1]], dim=1)
    seconds, losses = [], []
    for _ in range(options.warmup_steps + options.steps):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            logits = model(source, target)
        loss = loss_of(logits.float().flatten(0, 1), output.flatten())
        loss.backward()
        optimizer.step()
        noam.step()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
    return seconds, losses, model


def main() -> None:
    torch.set_num_threads(OPTIONS.threads)
    seconds, losses, model = train(OPTIONS)
    timed = seconds[OPTIONS.warmup_steps :]
    tokens = OPTIONS.batch_sentences * OPTIONS.tgt_len
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "preset": OPTIONS.preset,
                "dtype": OPTIONS.dtype,
                "tuned": OPTIONS.tuned,
                "threads": OPTIONS.threads,
                "vocabulary": model.vocabulary,
                "dropout": model.p,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "tokens_per_s": tokens / statistics.median(timed),
                "step_s_median": statistics.median(timed),
                "step_s_min": min(timed),
                "step_s_max": max(timed),
                "first_loss": losses[0],
                "last_loss": losses[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
