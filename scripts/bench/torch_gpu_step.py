#!/usr/bin/env python3
"""Measures updates of the same model in PyTorch on a GPU, with PyTorch's fastest means: bf16 by autocast,
attention over packed sentences by Flash Attention (torch.nn.attention.varlen, PyTorch 2.10 and newer; else fused
attention over padded sentences), torch.compile, fused Adam. The model is that of torch_step.py, the sentences are those
that bench_train_step --write-batches wrote. Ways of compiling: "reduce-overhead" and "default" give all updates one shape,
by a few tokens of padding that count for nothing, so that nothing is compiled twice and, in the first, whole passes replay
as CUDA graphs; "dynamic" has no padding and one program for all shapes; "eager" compiles nothing. Prints one line of JSON,
which has every way tried and the fastest on top.

    torch_gpu_step.py --batches FILE [--preset base] [--updates 20] [--modes reduce-overhead default dynamic]

--device cpu tries the script out on a machine without a GPU."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import math
import pathlib
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

# Layers of each stack, width, heads, inner width, dropout.
SHAPES = {"tiny": (4, 128, 4, 256, 0.3), "base": (6, 512, 8, 2048, 0.1), "big": (6, 1024, 16, 4096, 0.3)}
NOT_COUNTED = -100
MODES = ["reduce-overhead", "default", "dynamic", "eager"]
# Most tokens of a sentence of padding.
SPARE = 16


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=pathlib.Path, required=True)
    parser.add_argument("--preset", choices=sorted(SHAPES), default="base")
    parser.add_argument(
        "--dtype", choices=["bf16", "fp32"], default="bf16", help="of products; weights and Adam are fp32"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--attention", choices=["auto", "varlen", "padded"], default="auto")
    parser.add_argument("--updates", type=int, default=20, help="timed, after --warmup")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES[:2], help="ways of compiling to try")
    parser.add_argument("--first", action="store_true", help="stop at the first mode that works")
    parser.add_argument("--dropout", type=float)
    return parser.parse_args()


@dataclasses.dataclass(frozen=True)
class Room:
    """The padded size of a side of an update: tokens, and sentences, of which the last `spare` are padding."""

    tokens: int
    sentences: int
    spare: int
    longest: int


def rooms(updates: list[dict], padded: bool) -> list[tuple[Room, Room]]:
    """The room of source and target in each update; equal for all updates if they are padded. Every sentence of padding
    has tokens on both sides, because attention without keys is undefined."""
    sides = [[update[name] for update in updates] for name in ("source_offsets", "target_offsets")]
    longest = [max(SPARE, max(b - a for one in side for a, b in zip(one, one[1:]))) for side in sides]
    if not padded:
        return [tuple(Room(one[-1], len(one) - 1, 0, most) for one, most in zip(pair, longest)) for pair in zip(*sides)]
    spare = 1 + max(
        math.ceil((max(one[-1] for one in side) - min(one[-1] for one in side) + 64) / (SPARE - 1)) for side in sides
    )
    sentences = spare + max(len(one) - 1 for one in sides[0])
    tokens = [max(one[-1] for one in side) + spare for side in sides]
    same = tuple(Room(count + -count % 64, sentences, spare, most) for count, most in zip(tokens, longest))
    return [same] * len(updates)


class Side:
    """The sentences of one side of an update in sequence: real sentences, sentences of padding, empty sentences."""

    def __init__(self, offsets: list[int], room: Room, device: str) -> None:
        lengths = [b - a for a, b in zip(offsets, offsets[1:])]
        missing = room.tokens - offsets[-1]
        lengths += [missing // room.spare + (i < missing % room.spare) for i in range(room.spare)]
        lengths += [0] * (room.sentences - len(lengths))
        places = torch.tensor([0, *lengths]).cumsum(0)
        sentence = torch.arange(room.sentences).repeat_interleave(torch.tensor(lengths))
        position = torch.arange(room.tokens) - places[sentence]
        self.cumulated = places.to(torch.int32).to(device)
        self.position = position.to(device)
        self.slot = (sentence * room.longest + position).to(device)  # of each token among padded sentences
        self.lengths = torch.tensor(lengths).to(device)
        self.longest, self.sentences = room.longest, room.sentences


class Update:
    def __init__(self, update: dict, source: Room, target: Room, device: str) -> None:
        def filled(ids: list[int], room: Room, value: int) -> torch.Tensor:
            return torch.tensor(ids + [value] * (room.tokens - len(ids))).to(device)

        self.source_ids = filled(update["source"], source, 0)
        self.target_ids = filled(update["target_in"], target, 0)
        self.output = filled(update["target_out"], target, NOT_COUNTED)
        self.source = Side(update["source_offsets"], source, device)
        self.target = Side(update["target_offsets"], target, device)
        self.target_tokens = len(update["target_in"])
        self.padding = (source.tokens + target.tokens) / (len(update["source"]) + len(update["target_in"])) - 1


Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Side, Side, bool], torch.Tensor]


def attend_packed() -> Attend:
    """Returns Flash Attention over packed sentences, [tokens, heads, head width]."""
    from torch.nn.attention.varlen import varlen_attn

    by_flag = "is_causal" in inspect.signature(varlen_attn).parameters

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rows: Side, keys: Side, causal: bool) -> torch.Tensor:
        how = {"is_causal": causal} if by_flag else {"window_size": (-1, 0) if causal else (-1, -1)}
        return varlen_attn(q, k, v, rows.cumulated, keys.cumulated, rows.longest, keys.longest, **how)

    return attend


def pad(x: torch.Tensor, side: Side) -> torch.Tensor:
    """[sentences, heads, longest, head width]; zeros where a sentence is shorter."""
    padded = x.new_zeros(side.sentences * side.longest, *x.shape[1:]).index_copy(0, side.slot, x)
    return padded.unflatten(0, (side.sentences, side.longest)).transpose(1, 2)


def attend_padded(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rows: Side, keys: Side, causal: bool
) -> torch.Tensor:
    """By scaled_dot_product_attention over padded sentences; an empty sentence has one key of zeros."""
    mask = torch.arange(keys.longest, device=q.device)[None, :] < keys.lengths.clamp(min=1)[:, None]
    mask = mask[:, None, None, :]
    if causal:
        mask = mask & torch.ones(rows.longest, keys.longest, dtype=torch.bool, device=q.device).tril()
    out = functional.scaled_dot_product_attention(pad(q, rows), pad(k, keys), pad(v, keys), attn_mask=mask)
    return out.transpose(1, 2).flatten(0, 1)[rows.slot]


class Attention(nn.Module):
    """Queries of x against keys and values of `memory`, or of x itself; each as one product for all heads."""

    def __init__(self, width: int, heads: int, own: bool, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.inward = nn.Linear(width, 3 * width if own else width)
        self.memory = None if own else nn.Linear(width, 2 * width)
        self.outward = nn.Linear(width, width)

    def forward(
        self, x: torch.Tensor, rows: Side, keys: Side, causal: bool, memory: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.memory is None:
            parts = self.inward(x).chunk(3, dim=-1)
        else:
            parts = (self.inward(x), *self.memory(memory).chunk(2, dim=-1))
        query, key, value = (part.unflatten(-1, (self.heads, -1)) for part in parts)
        return self.outward(self.attend(query, key, value, rows, keys, causal).flatten(1))


class Block(nn.Module):
    """A layer: its sub-layers one after another, each y = norm(x + dropout(sub-layer(x)))."""

    def __init__(self, decodes: bool, width: int, heads: int, inner: int, dropout: float, attend: Attend) -> None:
        super().__init__()
        self.own = Attention(width, heads, True, attend)
        self.cross = Attention(width, heads, False, attend) if decodes else None
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decodes else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, rows: Side, keys: Side, memory: torch.Tensor | None = None) -> torch.Tensor:
        x = self.norms[0](x + self.dropout(self.own(x, rows, rows, self.cross is not None)))
        if self.cross is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, rows, keys, False, memory)))
        return self.norms[-1](x + self.dropout(self.down(functional.relu(self.up(x)))))


class Transformer(nn.Module):
    """One embedding matrix for source, target and output; its forward ends at the loss."""

    def __init__(self, options: argparse.Namespace, vocabulary: int, longest: int, attend: Attend) -> None:
        super().__init__()
        layers, self.width, heads, inner, dropout = SHAPES[options.preset]
        self.p = dropout if options.dropout is None else options.dropout
        self.table = nn.Embedding(vocabulary, self.width)
        self.encoder = nn.ModuleList(Block(False, self.width, heads, inner, self.p, attend) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(True, self.width, heads, inner, self.p, attend) for _ in range(layers))
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and "table" not in name:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.table.weight, std=self.width**-0.5)
        angle = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, self.width, 2) / self.width)
        self.register_buffer("sinusoids", torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1))

    def embed(self, ids: torch.Tensor, side: Side) -> torch.Tensor:
        return functional.dropout(self.table(ids) * math.sqrt(self.width) + self.sinusoids[side.position], self.p)

    def forward(self, update: Update) -> torch.Tensor:
        memory, x = self.embed(update.source_ids, update.source), self.embed(update.target_ids, update.target)
        for layer in self.encoder:
            memory = layer(memory, update.source, update.source)
        for layer in self.decoder:
            x = layer(x, update.target, update.source, memory)
        logits = functional.linear(x, self.table.weight)
        return functional.cross_entropy(logits.float(), update.output, ignore_index=NOT_COUNTED, label_smoothing=0.1)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def compiled(model: Transformer, mode: str) -> Callable[[Update], torch.Tensor]:
    if mode == "eager":
        return model
    if mode == "dynamic":
        return torch.compile(model, dynamic=True)
    return torch.compile(model, mode=mode, dynamic=False)


def train(options: argparse.Namespace, mode: str, read: list[dict], attend: Attend) -> dict:
    """Trains in one compile mode; returns rates, losses and memory."""
    torch.manual_seed(1)
    both = rooms(read, mode in ("reduce-overhead", "default"))
    updates = [Update(one, *room, options.device) for one, room in zip(read, both)]
    if options.device == "cuda":
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    longest = max(max(update.source.longest, update.target.longest) for update in updates)
    model = Transformer(options, read[0]["vocabulary"], longest, attend).to(options.device)
    fused = {"fused": True} if options.device == "cuda" else {}
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9, **fused)
    noam = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: model.width**-0.5 * min((done + 1) ** -0.5, (done + 1) * 4000**-1.5)
    )
    step = compiled(model, mode)
    began_all = time.perf_counter()
    seconds, losses = [], []
    for update in updates:
        wait(options.device)
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = step(update)
        loss.backward()
        optimizer.step()
        noam.step()
        losses.append(loss.detach().clone())
        wait(options.device)
        seconds.append(time.perf_counter() - began)
    timed = seconds[options.warmup :]
    target = [update.target_tokens for update in updates[options.warmup :]]
    rates = [tokens / took for tokens, took in zip(target, timed)]
    result = {
        "compile": mode,
        "target_tokens_per_s": statistics.median(rates),
        "target_tokens_per_s_min": min(rates),
        "target_tokens_per_s_max": max(rates),
        "step_ms": 1e3 * statistics.median(timed),
        "warmup_s": sum(seconds[: options.warmup]),
        "whole_s": time.perf_counter() - began_all,
        "first_loss": losses[0].item(),
        "last_loss": losses[-1].item(),
        "padding": statistics.mean(update.padding for update in updates),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    if options.device == "cuda":
        free, total = torch.cuda.mem_get_info()
        result |= {
            "peak_memory_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "device_used_bytes": total - free,
        }
    return result


def choose_attention(options: argparse.Namespace) -> tuple[str, Attend]:
    if options.attention == "padded" or (options.attention == "auto" and options.device == "cpu"):
        return "padded", attend_padded
    try:
        return "varlen", attend_packed()
    except ImportError:
        if options.attention == "varlen":
            raise
        return "padded", attend_padded


def main() -> None:
    options = arguments()
    torch.set_float32_matmul_precision("highest" if options.dtype == "fp32" else "high")
    read = [json.loads(line) for line in options.batches.read_text(encoding="utf-8").splitlines()]
    read = read[: options.warmup + options.updates]
    if len(read) <= options.warmup:
        raise SystemExit(
            f"torch_gpu_step: {options.batches} has {len(read)} updates, more than {options.warmup} are needed"
        )
    name, attend = choose_attention(options)
    tried, failed = [], []
    for mode in options.modes:
        if options.first and tried:
            break
        try:
            tried.append(train(options, mode, read, attend))
        except Exception as error:  # noqa: BLE001: another way may work; what failed is in the result
            failed.append({"compile": mode, "error": f"{type(error).__name__}: {error}".splitlines()[0][:300]})
    if not tried:
        raise SystemExit(f"torch_gpu_step: nothing worked: {json.dumps(failed)}")
    best = max(tried, key=lambda one: one["target_tokens_per_s"])
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "preset": options.preset,
                "dtype": options.dtype,
                "attention": name,
                **best,
                "tried": tried,
                "failed": failed,
            }
        )
    )


if __name__ == "__main__":
    main()
