#!/usr/bin/env python3
"""Times PyTorch's attention on a GPU, forward and backward in bf16, for sentences of equal length: Flash Attention over
packed sentences (torch.nn.attention.varlen) and scaled_dot_product_attention by Flash Attention and by cuDNN. Prints one
line of JSON: for each length and kernel the medians in ms, and the relative errors of the output and of dq, dk and dv against
float64 without dropout.

    torch_attention.py [--tokens 25600] [--lengths 30 200 512 2048] [--heads 8] [--width 64] [--dropout 0.1] [--causal]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=25600)
    parser.add_argument("--lengths", type=int, nargs="+", default=[30, 200, 512, 2048])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="of a head")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the timed calls; packed sentences have none")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--repeats", type=int, default=20)
    return parser.parse_args()


def by_sdpa(backend: SDPBackend, causal: bool) -> Kernel:
    """q, k, v and the result are [sentences, length, heads, width]."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float) -> torch.Tensor:
        with sdpa_kernel(backend):
            turned = (x.transpose(1, 2) for x in (q, k, v))
            return functional.scaled_dot_product_attention(*turned, dropout_p=dropout, is_causal=causal).transpose(1, 2)

    return attend


def by_varlen(causal: bool) -> Kernel:
    from torch.nn.attention.varlen import varlen_attn

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float) -> torch.Tensor:
        sentences, length = q.shape[:2]
        ends = torch.arange(0, sentences * length + 1, length, dtype=torch.int32, device=q.device)
        flat = (x.flatten(0, 1) for x in (q, k, v))
        window = (-1, 0) if causal else (-1, -1)
        return varlen_attn(*flat, ends, ends, length, length, window_size=window).view(q.shape)

    return attend


def kernels(causal: bool) -> dict[str, Kernel]:
    return {
        "varlen": by_varlen(causal),
        "flash": by_sdpa(SDPBackend.FLASH_ATTENTION, causal),
        "cudnn": by_sdpa(SDPBackend.CUDNN_ATTENTION, causal),
    }


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2)


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found.double() - expected).norm() / expected.norm()).item()


def errors(attend: Kernel, shape: tuple[int, ...], causal: bool) -> dict[str, float]:
    inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    low = [x.clone().requires_grad_() for x in inputs[:3]]
    out = attend(*low, 0.0)
    out.backward(inputs[3])
    high = [x.double().requires_grad_() for x in inputs[:3]]
    expected = exact(*high, causal)
    expected.backward(inputs[3].double())
    found = {"out": relative(out, expected)}
    return found | {name: relative(a.grad, b.grad) for name, a, b in zip(("dq", "dk", "dv"), low, high)}


def times(attend: Kernel, shape: tuple[int, ...], options: argparse.Namespace) -> dict[str, float]:
    """Medians in ms, with the cache overwritten before each call."""
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    cache = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    parts: dict[str, list[float]] = {"forward_ms": [], "backward_ms": []}
    for repeat in range(options.repeats + 3):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        cache.fill_(repeat % 256)
        marks[0].record()
        out = attend(q, k, v, options.dropout)
        marks[1].record()
        cache.fill_(repeat % 256)
        marks[2].record()
        torch.autograd.grad(out, (q, k, v), gradient)
        marks[3].record()
        torch.cuda.synchronize()
        if repeat < 3:
            continue
        parts["forward_ms"].append(marks[0].elapsed_time(marks[1]))
        parts["backward_ms"].append(marks[2].elapsed_time(marks[3]))
    return {name: statistics.median(values) for name, values in parts.items()}


def main() -> None:
    options = arguments()
    torch.manual_seed(1)
    rows = []
    for length in options.lengths:
        sentences = max(1, options.tokens // length)
        for name, attend in kernels(options.causal).items():
            row = {"length": length, "sentences": sentences, "kernel": name, "dropout": options.dropout}
            try:
                row |= errors(attend, (min(sentences, 2), length, options.heads, options.width), options.causal)
                row |= times(attend, (sentences, length, options.heads, options.width), options)
            except Exception as error:  # noqa: BLE001: the other kernels go on
                row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            rows.append(row)
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "rows": rows}))


if __name__ == "__main__":
    main()
