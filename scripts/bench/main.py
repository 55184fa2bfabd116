#!/usr/bin/env python3
"""Run by scripts/bench.sh after the build: runs one mode, prints a table and, on the last line, a JSON object."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

import emulate
import hostile
import server_against
import server_load
import texts
import train_step
import translate_load
from load_target import Refused
from runs import program, run

# For modes that take its options.
PROGRAMS = {
    "train-step": "bench_train_step",
    "ops": "bench_ops",
    "all-reduce": "bench_all_reduce",
    "decode": "bench_decode",
    "data": "bench_data",
    "plan": "bench_plan",
}
WITHOUT_OWN_OPTIONS = ("ops", "plan")  # modes that pass every option on


def declare_text(parser: argparse.ArgumentParser, text_needed: str) -> None:
    parser.add_argument("--text", required=True, help=f"SRC,TGT: {text_needed}")
    parser.add_argument("--pieces", type=int, default=8000, help="of the vocabulary made of it")


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="scripts/bench.sh")
    whole.add_argument("--programs", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    modes = whole.add_subparsers(dest="mode", required=True, metavar="MODE")
    train_step.declare(modes.add_parser("train-step", help="updates of a model"))
    modes.add_parser("ops", help="every op; options are those of bench_ops", add_help=False)
    modes.add_parser("plan", help="the order of many sentence pairs; options are those of bench_plan", add_help=False)
    reduce = modes.add_parser(
        "all-reduce", help="our ring against MPI's, or NCCL; further options are those of bench_all_reduce"
    )
    reduce.add_argument("--ranks", type=int, default=2)
    reduce.add_argument("--bind-to", default="none")
    declare_text(
        modes.add_parser("decode", help="beam search; further options are those of bench_decode"),
        "its source side is translated; or a folder of nmt prepare, whose test set is",
    )
    declare_text(
        modes.add_parser("data", help="preparing text; further options are those of bench_data"),
        "two files, plain or gzip",
    )
    emulate.declare(modes.add_parser("emulate", help="the emulator's predictions beside measured runs"))
    server = modes.add_parser(
        "server", help="the server's load bars beside nginx; with --hostile, attackers beside a training run"
    )
    server_load.declare(server)
    hostile.declare(server)
    translate_load.declare(
        modes.add_parser("translate", help="clients that translate by a server, one sentence a request")
    )
    return whole


def command(options: argparse.Namespace, rest: list[str]) -> list[str]:
    """Arguments of modes that run a single program."""
    own = str(program(options.programs, PROGRAMS[options.mode]))
    words = [word for word in rest if word != "--"]
    if options.mode in WITHOUT_OWN_OPTIONS:
        return [own, *words]
    if options.mode == "all-reduce":
        return ["mpirun", "-np", str(options.ranks), "--bind-to", options.bind_to, "--oversubscribe", own, *words]
    if options.mode == "decode":
        return [own, "--data", str(texts.prepared(options.programs, options.text, options.pieces)), *words]
    source, target = texts.pair_of(options.text)
    return [own, "--source", str(source), "--target", str(target), "--pieces", str(options.pieces), *words]


def help_asked_of(mode: str, words: list[str]) -> str:
    """Returns the program whose --help was requested, after -- or by a mode without own options."""
    behind = words[words.index("--") + 1 :] if "--" in words else words if mode in WITHOUT_OWN_OPTIONS else []
    return PROGRAMS.get(mode, "") if {"--help", "-h"} & set(behind) else ""


def main() -> None:
    _, _, folder, mode, *words = sys.argv  # of --programs FOLDER MODE …
    name = help_asked_of(mode, words)
    if name:
        asked = str(program(pathlib.Path(folder), name))
        os.execv(asked, [asked, "--help"])
    options, rest = parser().parse_known_args()
    if options.mode == "train-step":
        if rest:
            sys.exit(f"scripts/bench.sh: unknown option {rest[0]}; options of bench_train_step go behind --")
        result = train_step.main(options, options.programs)
    elif options.mode == "emulate":
        if rest:
            sys.exit(f"scripts/bench.sh: unknown option {rest[0]}")
        result = emulate.main(options, options.programs)
    elif options.mode == "translate":
        if rest:
            sys.exit(f"scripts/bench.sh: unknown option {rest[0]}")
        result = translate_load.main(options, options.programs)
    elif options.mode == "server":
        if rest:
            sys.exit(f"scripts/bench.sh: unknown option {rest[0]}")
        options.seconds = options.seconds or (120 if options.hostile else 2)
        mode = hostile if options.hostile else server_against if options.against_build else server_load
        try:
            result = mode.main(options, options.programs)
        except Refused as refused:
            sys.exit(f"bench: {refused}")
    else:
        one = run(command(options, rest))
        print(one.output)
        result = one.result | {"others_busy": one.others_busy, "steal": one.steal}
    print(json.dumps(result))
    if options.mode == "server" and options.hostile and result["broken"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
