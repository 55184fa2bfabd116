"""The compiled kernels for sm_90: registers, spills, and instructions of hot loops. No device is needed."""

import concurrent.futures
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
KERNELS = ROOT / "nmt/ops/cuda"
NVCC = shlex.split(os.environ["BABELRING_NVCC"])  # after what launches it, as ccache
OPTIONS = ["-std=c++20", "-O3", "-DNDEBUG", f"-I{ROOT}", "--expt-relaxed-constexpr"]

# Registers a thread, at most. 65,536 of a multiprocessor are for up to 2,048 threads: 32 let all be there, 64 half.
REGISTERS = {
    "cross_entropy_kernel<8, __nv_bfloat16>": 32,
    "cross_entropy_kernel": 40,
    "layer_norm_kernel": 64,
    "residual_norm_kernel": 60,
    "residual_norm_kernel<8, 2, true, __nv_bfloat16>": 48,
    "residual_norm_kernel<8, 4, false, __nv_bfloat16>": 72,
    "norm_backward_kernel": 80,
    "norm_backward_kernel<8, 2, 2, true, true, __nv_bfloat16>": 118,
    "norm_backward_kernel<8, 2, 3, true, true, __nv_bfloat16>": 128,
    "norm_backward_kernel<8, 4, 2, true, true, __nv_bfloat16>": 184,
    "norm_backward_kernel<8, 4, 3, true, true, __nv_bfloat16>": 224,
    "norm_backward_kernel<4, 4, 2, true, true, float>": 152,
    "norm_backward_kernel<4, 4, 3, true, true, float>": 168,
    # The second flag: without it, norms by the root mean square.
    "norm_backward_kernel<8, 2, 1, true, false, __nv_bfloat16>": 96,
    "norm_backward_kernel<8, 2, 2, true, false, __nv_bfloat16>": 112,
    "norm_backward_kernel<8, 4, 1, true, false, __nv_bfloat16>": 160,
    "norm_backward_kernel<8, 4, 2, true, false, __nv_bfloat16>": 204,
    "norm_backward_kernel<4, 4, 1, true, false, float>": 120,
    "norm_backward_kernel<4, 4, 2, true, false, float>": 136,
    "embedding_forward_kernel": 48,
    "embedding_backward_kernel": 74,
    "gate_kernel": 50,
    "adam_kernel": 44,
    "adam_kernel<4, true>": 46,
    "counted_adam_kernel": 62,
    "counted_adam_kernel<4, false>": 86,
    "counted_adam_kernel<4, true>": 83,
    "tile_forward_kernel<32>": 88,
    "tile_forward_kernel<64>": 127,
    "tile_forward_kernel<128>": 195,
    "tile_backward_kernel<32>": 109,
    "tile_backward_kernel<64>": 127,
    "tile_backward_kernel<128>": 237,
}
REGISTERS_OF_OTHERS = 64


def compile_kernels(source, *options):
    """The output of nvcc on stderr."""
    done = subprocess.run([*NVCC, *OPTIONS, *options, source], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{source}: nvcc failed: {done.stderr}")
    return done.stderr


def demangled(symbols):
    done = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def kernel_name(signature):
    """name<template arguments> of a demangled kernel; None for a library's."""
    found = re.search(r"(\w+_kernel)(<[^()]*>)?\(", signature)
    return found and found.group(1) + (found.group(2) or "")


def usage_of(source):
    """[(kernel, registers, bytes of spills and stack)] of a source."""
    with tempfile.TemporaryDirectory() as folder:
        said = compile_kernels(
            source, "--generate-code=arch=compute_90,code=[sm_90]", "-Xptxas=-v", "-c", "-o", f"{folder}/kernels.o"
        )
    symbols, rows = [], []
    for part in said.split("Compiling entry function '")[1:]:
        symbols.append(part[: part.index("'")])
        memory = [int(count) for count in re.findall(r"(\d+) bytes (?:stack frame|spill)", part)]
        rows.append((int(re.search(r"Used (\d+) registers", part).group(1)), sum(memory)))
    names = [kernel_name(signature) for signature in demangled(symbols)]
    return [(name, *row) for name, row in zip(names, rows) if name]


def limit_of(kernel):
    return REGISTERS.get(kernel, REGISTERS.get(kernel.split("<")[0], REGISTERS_OF_OTHERS))


class Registers(unittest.TestCase):
    def test_are_at_most_as_listed_and_none_is_spilled(self):
        sources = sorted(KERNELS.glob("*.cu"))
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            found = list(threads.map(usage_of, sources))
        seen = set()
        for kernel, registers, spilled in sum(found, []):
            seen |= {kernel, kernel.split("<")[0]}
            with self.subTest(kernel=kernel):
                self.assertEqual(spilled, 0, "bytes of stack and spills")
                self.assertLessEqual(registers, limit_of(kernel))
        self.assertEqual(set(REGISTERS) - seen, set(), "listed, but no kernel")


def instructions(ptx):
    """[(label or None, text)] of a kernel's body."""
    for line in map(str.strip, ptx.splitlines()):
        label = re.match(r"(\$\w+):", line)
        if label:
            yield label.group(1), ""
        elif re.match(r"(@!?%p\d+\s+)?\{?\s*[a-z][\w.]*[^:]*;", line):
            yield None, line.lstrip("{ \t")


def loops(ptx):
    """Each loop's instructions: those from a label to a branch back to it."""
    places, code, found = {}, [], []
    for label, text in instructions(ptx):
        if label:
            places[label] = len(code)
            continue
        code.append(text)
        branch = re.search(r"\bbra(?:\.uni)?\s+(\$\w+)", text)
        if branch and branch.group(1) in places:
            found.append(code[places[branch.group(1)] :])
    return found


def kernels_in_ptx(source):
    """{kernel: PTX} of a source."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernels.ptx"
        compile_kernels(source, "-gencode=arch=compute_90,code=compute_90", "-ptx", "-o", str(path))
        parts = re.split(r"(?m)^(?:\.visible |\.weak )?\.entry ", path.read_text())[1:]
    names = demangled([part[: part.index("(")] for part in parts])
    return {kernel_name(name + "("): part for name, part in zip(names, parts)}


class CrossEntropyLoops(unittest.TestCase):
    """Two passes over a row, which without care compute longer than memory takes to bring it."""

    def test_take_at_most_eight_instructions_an_element(self):
        ptx = kernels_in_ptx(KERNELS / "cross_entropy.cu")["cross_entropy_kernel<8, __nv_bfloat16>"]
        passes = [loop for loop in loops(ptx) if any("ex2.approx" in text for text in loop)]
        self.assertEqual(len(passes), 2, "the sums and the gradient")
        for loop, stores in zip(passes, (0, 1)):
            loads = sum("ld.global.v4" in text for text in loop)
            self.assertGreaterEqual(loads, 2, "loads on their way at a time")
            self.assertLessEqual(len(loop) / (8 * loads), 8, "\n".join(loop))
            self.assertEqual(sum("st.global.cs.v4" in text for text in loop), stores * loads, "streaming stores")
            self.assertEqual(sum(text.startswith("setp") for text in loop), 1, "comparisons: the end of the loop alone")


class NormRows(unittest.TestCase):
    """Rows of 512 and of 1024 columns are in registers: 2 or 4 pieces of 16 bytes a lane, read from memory once."""

    def test_are_read_once_forward(self):
        kernels = kernels_in_ptx(KERNELS / "layer_norm.cu")
        for pieces, centered in itertools.product((2, 4), ("true", "false")):
            for name, operands in (("layer_norm_kernel", 1), ("residual_norm_kernel", 2)):
                ptx = kernels[f"{name}<8, {pieces}, {centered}, __nv_bfloat16>"]
                with self.subTest(kernel=name, pieces=pieces, centered=centered):
                    self.assertEqual(ptx.count("ld.global.v4.u32"), operands * pieces)
                    self.assertEqual(loops(ptx), [])

    def test_are_read_once_backward_and_summed_in_registers(self):
        kernels = kernels_in_ptx(KERNELS / "layer_norm.cu")
        for pieces, (sums, centered) in itertools.product(
            (2, 4), ((2, "true"), (3, "true"), (1, "false"), (2, "false"))
        ):
            ptx = kernels[f"norm_backward_kernel<8, {pieces}, {sums}, true, {centered}, __nv_bfloat16>"]
            rows = [loop for loop in loops(ptx) if any("shfl" in text for text in loop)]
            with self.subTest(pieces=pieces, sums=sums, centered=centered):
                self.assertEqual(len(rows), 1)
                loads = sum("ld.global.v4.u32" in text for text in rows[0])
                self.assertEqual(loads, 3 * pieces, "dy and x of the next row, and dx where it is added to")
                self.assertFalse([text for text in rows[0] if ".shared" in text])


class OverlappingKernels(unittest.TestCase):
    """Launched before the kernel before them has ended."""

    def test_wait_before_they_touch_memory(self):
        for source in sorted(KERNELS.glob("*.cu")):
            for kernel, ptx in kernels_in_ptx(source).items():
                if kernel is None:
                    continue  # a library's
                body = [text for _, text in instructions(ptx) if text]
                waits = [place for place, text in enumerate(body) if "griddepcontrol.wait" in text]
                touches = [
                    place
                    for place, text in enumerate(body)
                    if re.match(r"(@\S+ )?(ld|st|red|atom)\.(global|shared)", text)
                ]
                with self.subTest(kernel=kernel):
                    self.assertEqual(len(waits), 1)
                    self.assertLess(waits[0], min(touches, default=len(body)))


class GateRows(unittest.TestCase):
    def test_are_loaded_four_at_a_time_before_any_is_stored(self):
        ptx = kernels_in_ptx(KERNELS / "linear.cu")["gate_kernel<8, __nv_bfloat16>"]
        together = max(loops(ptx), key=len)
        moves = [text.split()[0] for text in together if ".global" in text]
        self.assertEqual(moves, ["ld.global.v4.u32"] * 8 + ["st.global.v4.u32"] * 4, "dx and gate; dx")
        self.assertLessEqual(len(together) / (4 * 8), 9, "instructions an element")


class Dropout(unittest.TestCase):
    def test_hashes_two_columns_at_a_time(self):
        kernels = kernels_in_ptx(KERNELS / "elementwise.cu")
        for name, operands in (("dropout_kernel", 1), ("residual_dropout_kernel", 2)):
            hash_factor = f", {0x7feb352d};"  # of mix32()
            hashing = [
                loop
                for loop in loops(kernels[f"{name}<8, __nv_bfloat16>"])
                if any(hash_factor in text for text in loop)
            ]
            with self.subTest(kernel=name):
                self.assertEqual(len(hashing), 1)
                pieces = sum("ld.global.v4" in text for text in hashing[0]) // operands
                self.assertEqual(sum(hash_factor in text for text in hashing[0]), 4 * pieces, "of 8 columns")


class EmbeddingRows(unittest.TestCase):
    def test_are_read_by_pieces_and_compute_no_sinusoids(self):
        """A separate loop computes the sinusoids of positions beyond the table in double."""
        ptx = kernels_in_ptx(KERNELS / "embedding.cu")["embedding_forward_kernel<8, __nv_bfloat16>"]
        rows = [loop for loop in loops(ptx) if any("ld.global.v4.f32" in text for text in loop)]
        self.assertTrue(rows, "sinusoids are read four at a time")
        for loop in rows:
            self.assertTrue(any("ld.global.v4.u32" in text for text in loop), "and embeddings eight")
            self.assertFalse([text for text in loop if "f64" in text])


class Loops(unittest.TestCase):
    def test_count_what_they_should(self):
        listing = """
$L__BB0_1:
	ld.global.v4.u32 	{%r1, %r2, %r3, %r4}, [%rd1];
	// begin inline asm
	{ max.bf16x2 %r5,%r1,%r2;
}
	.pragma "nounroll";
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_2;
$L__BB0_2:
	ret;
"""
        self.assertEqual([len(loop) for loop in loops(listing)], [3])


if __name__ == "__main__":
    unittest.main()
