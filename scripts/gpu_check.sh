#!/usr/bin/env bash
# Checks everything that involves a GPU, in one call within ten minutes, on a machine that has one: tests of ops, layers,
# models and search against the reference, compute-sanitizer, repeatability, checkpoints between processor and GPU, real
# trainings to a BLEU score, and speed: each op beside the card's measured peak, updates beside PyTorch, translation.
#
#   scripts/gpu_check.sh [--minutes 9] [--only PART ...] [--skip PART ...] [--data FOLDER] [--out FOLDER] [--bin FOLDER]
#   scripts/gpu_check.sh --device cpu     the same in small on the processor: whether the check itself works
#   scripts/gpu_check.sh --list           names the parts
#   scripts/gpu_check.sh --help           every option
#
# Takes the programs of --bin, or of the first of these folders that has a worker: bin (what scripts/gpu_bundle.sh packs for
# a machine that has only a driver and Python), build/gpu/bin (from which it packs), build/dev/bin, build/ci/bin. Each part
# has its own time limit, and none stops the others; what a machine lacks (compute-sanitizer, PyTorch, text) is reported. Leaves gpu_check.json, gpu_check.md and gpu_check.log in --out (gpu_check). Exits 0 if nothing failed, 1 if a
# part did or had no time left, 2 on wrong usage, 3 if there is no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/scripts/gpu/main.py" "$@"
