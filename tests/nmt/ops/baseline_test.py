"""baseline_test.py OBJDUMP PROGRAM: only functions that are compiled for an instruction set use more than plain x86-64."""

from __future__ import annotations

import re
import subprocess
import sys

# AVX and later (all begin with v), and the other instructions of x86-64-v2 and v3.
BEYOND = re.compile(
    r"\t(?:v(?!err|erw)[a-z0-9]+|andn|bextr|bls(?:i|r|msk)|bzhi|mulx|p(?:dep|ext)|(?:ror|sar|shl|shr)x|lzcnt|movbe|"
    r"popcnt|p(?:shufb|minud|maxud|mulld|blendvb)|round[sp][sd]|blendvp[sd]|(?:tile|tdp|ldtile)[a-z0-9]+)[lqw]?\s"
)
# Kernels of a set, and copies that the linker chooses (nmt/comm/sums.cc).
FOR_A_SET = re.compile(r"babelring3cpu(?:7generic|4avx2|6avx512|11avx512_bf16|11avx512_vnni)|\.avx2")


def main() -> int:
    objdump, program = sys.argv[1:]
    listing = subprocess.Popen([objdump, "-d", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True)
    found: dict[str, str] = {}
    sets: set[str] = set()
    function = ""
    for line in listing.stdout:
        if line.endswith(">:\n"):
            function = line[line.index("<") + 1 : -3]
        elif BEYOND.search(line):
            named = FOR_A_SET.search(function)
            if named:
                sets.add(named.group())
            else:
                found.setdefault(function, line.strip())
    if listing.wait() != 0:
        return 1
    for function, line in found.items():
        print(f"{program}: {function} is not compiled for an instruction set, but has: {line}")
    expected = {"babelring3cpu4avx2", "babelring3cpu6avx512", "babelring3cpu11avx512_bf16"}
    if not expected <= sets:
        print(f"{program}: no kernels of {expected - sets}")
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
