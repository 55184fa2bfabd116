#!/usr/bin/python3
"""The arithmetic of transformers' MarianMTModel (models/marian/modeling_marian.py) in PyTorch, in double precision: computes the
translations of FOLDER/conformance.jsonl with FOLDER/model.safetensors and the numbers of config.json, which must have all that such a
model has, and no tensor more. Prints how many lines are equal.

usage: marian_model.py FOLDER [LINES]; needs Debian's python3-torch."""

import json
import math
import sys
from pathlib import Path

import torch
from torch.nn import functional

ACTIVATIONS = {"relu": functional.relu, "swish": functional.silu, "gelu": functional.gelu}


class MarianModel:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        data = (folder / "model.safetensors").read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:begin])
        assert entries.pop("__metadata__") == {"format": "pt"}
        self.tensors = {}
        for name, entry in entries.items():
            first, end = (begin + at for at in entry["data_offsets"])
            assert entry["dtype"] == "F32", name
            values = torch.frombuffer(bytearray(data[first:end]), dtype=torch.float32)
            self.tensors[name] = values.double().reshape(entry["shape"])
        self.unused = set(self.tensors)

    def tensor(self, name, *shape):
        assert self.tensors[name].shape == torch.Size(shape), f"{name}: {self.tensors[name].shape}, expected {shape}"
        self.unused.discard(name)
        return self.tensors[name]

    def table(self, name):
        return self.tensor(name, self.config["vocab_size"], self.config["d_model"])

    def linear(self, x, name, outputs):
        return functional.linear(
            x, self.tensor(f"{name}.weight", outputs, x.shape[1]), self.tensor(f"{name}.bias", outputs)
        )

    def norm(self, x, name):
        width = x.shape[1]
        return functional.layer_norm(
            x, [width], self.tensor(f"{name}.weight", width), self.tensor(f"{name}.bias", width), 1e-5
        )

    def attention(self, x, memory, name, heads, is_causal):
        width = x.shape[1]
        inputs = {"q": x, "k": memory, "v": memory}
        q, k, v = (
            self.linear(rows, f"{name}.{part}_proj", width).reshape(-1, heads, width // heads).transpose(0, 1)
            for part, rows in inputs.items()
        )
        scores = q @ k.transpose(1, 2) / math.sqrt(width // heads)
        if is_causal:
            scores += torch.full(scores.shape, -math.inf, dtype=torch.double).triu(1)
        mixed = (torch.softmax(scores, 2) @ v).transpose(0, 1).reshape(-1, width)
        return self.linear(mixed, f"{name}.out_proj", width)

    def embed(self, ids, side):
        width = self.config["d_model"]
        shared = self.config["share_encoder_decoder_embeddings"]
        rows = self.table("model.shared.weight" if shared else f"model.{side}.embed_tokens.weight")[ids]
        angles = torch.arange(len(ids))[:, None] / 10000 ** (2 * torch.arange(width // 2, dtype=torch.double) / width)
        return rows * (math.sqrt(width) if self.config["scale_embedding"] else 1) + torch.cat(
            [angles.sin(), angles.cos()], 1
        )

    def layers(self, x, side, memory=None):
        heads, inner = self.config[f"{side}_attention_heads"], self.config[f"{side}_ffn_dim"]
        for i in range(self.config[f"{side}_layers"]):
            name = f"model.{side}.layers.{i}"
            attended = self.attention(x, x, f"{name}.self_attn", heads, memory is not None)
            x = self.norm(x + attended, f"{name}.self_attn_layer_norm")
            if memory is not None:
                attended = self.attention(x, memory, f"{name}.encoder_attn", heads, False)
                x = self.norm(x + attended, f"{name}.encoder_attn_layer_norm")
            hidden = ACTIVATIONS[self.config["activation_function"]](self.linear(x, f"{name}.fc1", inner))
            x = self.norm(x + self.linear(hidden, f"{name}.fc2", x.shape[1]), f"{name}.final_layer_norm")
        return x

    def log_probabilities(self, source, target):
        """Log-probabilities of every piece after each prefix of the target, which begins with the decoder's start: [target, pieces]."""
        memory = self.layers(self.embed(source, "encoder"), "encoder")
        x = self.layers(self.embed(target, "decoder"), "decoder", memory)
        shared = (
            "model.shared.weight"
            if self.config["share_encoder_decoder_embeddings"]
            else "model.decoder.embed_tokens.weight"
        )
        weight = self.table(shared if self.config["tie_word_embeddings"] else "lm_head.weight")
        return torch.log_softmax(x @ weight.T + self.tensor("final_logits_bias", 1, len(weight)), 1)


def compare(model, line):
    """The largest difference between our log-probability of the best translation and the model's, and whether the model's most probable
    pieces are those of the greedy one."""
    end, start = model.config["eos_token_id"], model.config["decoder_start_token_id"]
    source = [*line["source_ids"], end]
    best, greedy = ([*line[kind]["ids"], *[end] * line[kind]["complete"]] for kind in ("best", "greedy"))
    rows = model.log_probabilities(source, [start, *best[:-1]])
    total = sum(rows[at, piece].item() for at, piece in enumerate(best))
    choices = model.log_probabilities(source, [start, *greedy[:-1]]).argmax(1).tolist()
    return abs(total - line["best"]["log_probability"]), choices == greedy


def main():
    folder = Path(sys.argv[1])
    model = MarianModel(folder)
    lines = [json.loads(line) for line in (folder / "conformance.jsonl").read_text().splitlines()][
        : int((sys.argv + ["20"])[2])
    ]
    found = [compare(model, line) for line in lines]
    print(
        json.dumps(
            {
                "lines": len(found),
                "greedy": sum(is_equal for _, is_equal in found),
                "largest_difference": max(difference for difference, _ in found),
                "unused": sorted(model.unused),
            }
        )
    )


if __name__ == "__main__":
    main()
