#!/usr/bin/env bash
# oneDNN's bf16 x bf16 -> f32 product whose number of rows is known at run time only (DNNL_RUNTIME_DIM_VAL), with rows of A farther apart than
# they are long: right with AVX-512 in 2.6.3 and in 3.7.2; a machine with AMX has yet to run this.
#
#   findings/onednn_bf16_runtime_rows.sh    needs root, debootstrap, an x86-64 processor with AVX-512 bf16, Debian's mirror; takes minutes
#
# Packages, nothing else: libdnnl-dev 2.6.3-1 of Debian 12 and 3.7.2+ds-2 of Debian 13 with g++, each in a temporary system made by
# debootstrap. A program of this script's multiplies random numbers of [-0.5, 0.5) and compares with sums in double. Exits 0 if all is as
# stated below, 1 if something is not any more, 77 if this machine lacks something.
#
# Why: nmt/ops/cpu/matmul.cc makes such products for the exact number of rows, since one of 3.7 had a relative error of 1.5. The notes of oneDNN
# 3.7.3 (https://github.com/uxlfoundation/oneDNN/pull/3122) tell of a "correctness issue in matmul with non-trivial strides for the first tensor
# on processors with Intel AMX"; its change (pull 3060) names f16, 20x36 by 36x108, rows 64 apart, and there the number of rows is fixed.
#
# Seen on 28 November 2026, on two cores of an AMD EPYC without AMX (instruction set, rows, implementation, products, largest error):
#
#   2.6.3-1 avx512_core fixed gemm:jit 450 8.1e-08
#   2.6.3-1 avx512_core runtime gemm:jit 450 7.8e-08
#   2.6.3-1 avx512_core_bf16 fixed brg:avx512_core_bf16 210 9.3e-08
#   2.6.3-1 avx512_core_bf16 fixed gemm:jit 240 7.8e-08
#   2.6.3-1 avx512_core_bf16 runtime gemm:jit 450 7.8e-08
#   3.7.2+ds-2 avx512_core fixed gemm:jit:bf16 450 8.0e-08
#   3.7.2+ds-2 avx512_core runtime gemm:jit:bf16 450 7.8e-08
#   3.7.2+ds-2 avx512_core_bf16 fixed brg_matmul:avx512_core_bf16 450 9.3e-08
#   3.7.2+ds-2 avx512_core_bf16 runtime gemm:jit:bf16 450 7.8e-08
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=scripts/lib/debian.sh
source "$ROOT/scripts/lib/debian.sh"

folder=''

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

require() {
  [ "$(id -u)" -eq 0 ] || lacking "needs root"
  command -v debootstrap >/dev/null || lacking "there is no debootstrap"
  grep -qw avx512_bf16 /proc/cpuinfo || lacking "this processor has no AVX-512 bf16"
}

write_program() { # FILE
  cat >"$1" <<'PROGRAM'
// Prints, for fixed and for run-time numbers of rows: instruction set, implementation, number of products and the largest relative error.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

using namespace dnnl;
using dims = memory::dims;
const auto bf16 = memory::data_type::bf16, f32 = memory::data_type::f32;

struct Shape {
  long m, k, n, a_row;
  bool transposed;  // B
};

struct Largest {
  int products = 0;
  double error = 0;
};

float value(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

uint16_t next() {
  static uint32_t seed = 1;
  seed = seed * 1664525u + 1013904223u;
  const float drawn = float(seed >> 8) / (1 << 24) - 0.5f;
  uint32_t bits;
  std::memcpy(&bits, &drawn, sizeof bits);
  return uint16_t(bits >> 16);
}

matmul::primitive_desc describe(const engine& cpu, const memory::desc& a, const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu, a, b, c};
#else
  return {matmul::desc(a, b, c), cpu};
#endif
}

double relative_error(const Shape& s, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, const std::vector<float>& c) {
  double difference = 0, norm = 0;
  for (long i = 0; i < s.m; ++i) {
    for (long j = 0; j < s.n; ++j) {
      double sum = 0;
      for (long l = 0; l < s.k; ++l) sum += double{value(a[i * s.a_row + l])} * value(b[s.transposed ? j * s.k + l : l * s.n + j]);
      difference += (c[i * s.n + j] - sum) * (c[i * s.n + j] - sum);
      norm += sum * sum;
    }
  }
  return std::sqrt(difference / norm);
}

void multiply(const engine& cpu, stream& queue, const Shape& s, bool runtime, std::map<std::string, Largest>& found) {
  std::vector<uint16_t> a(s.m * s.a_row), b(s.k * s.n);
  std::vector<float> c(s.m * s.n, -1);
  for (auto* operand : {&a, &b})
    for (auto& element : *operand) element = next();
  const long rows = runtime ? DNNL_RUNTIME_DIM_VAL : s.m;
  const memory::desc b_desc({s.k, s.n}, bf16, s.transposed ? dims{1, s.k} : dims{s.n, 1});
  const auto chosen = describe(cpu, {{rows, s.k}, bf16, dims{s.a_row, 1}}, b_desc, {{rows, s.n}, f32, dims{s.n, 1}});
  const memory::desc a_desc({s.m, s.k}, bf16, dims{s.a_row, 1}), c_desc({s.m, s.n}, f32, dims{s.n, 1});
  matmul(chosen).execute(queue, {{DNNL_ARG_SRC, memory(a_desc, cpu, a.data())},
                                 {DNNL_ARG_WEIGHTS, memory(b_desc, cpu, b.data())},
                                 {DNNL_ARG_DST, memory(c_desc, cpu, c.data())}});
  queue.wait();
  Largest& largest = found[std::string(runtime ? "runtime " : "fixed ") + chosen.impl_info_str()];
  ++largest.products;
  const double error = relative_error(s, a, b, c);
  largest.error = std::isnan(error) ? INFINITY : std::max(largest.error, error);
}

const char* instruction_set() {
  switch (get_effective_cpu_isa()) {
    case cpu_isa::avx512_core: return "avx512_core";
    case cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return "other";
  }
}

int main() {
  const engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  std::map<std::string, Largest> found;
  for (const long m : {1, 5, 17, 32, 64})
    for (const long k : {32, 36, 64, 100, 128})
      for (const long n : {8, 64, 108})
        for (const long a_row : {k, k + 28, 3 * k})
          for (const bool transposed : {false, true})
            for (const bool runtime : {false, true}) multiply(cpu, queue, {m, k, n, a_row, transposed}, runtime, found);
  for (const auto& [name, largest] : found) {
    std::printf("%s %s %d %.1e\n", instruction_set(), name.c_str(), largest.products, largest.error);
  }
}
PROGRAM
}

# check RELEASE VERSION: makes the system and runs the program there with each instruction set. Adds to `changed`.
check() {
  local release=$1 version=$2 system=$folder/$1 found set
  mkdir "$system"
  say "making $release with libdnnl-dev"
  (debian_system "$release" "$system" g++ libdnnl-dev) || lacking "debootstrap made no $release"
  # shellcheck disable=SC2016  # the dollar sign is dpkg-query's
  found=$(chroot "$system" dpkg-query -W -f '${Version}' libdnnl-dev)
  [ "$found" = "$version" ] || changed+=("libdnnl-dev of $release is $found, expected $version")
  write_program "$system/product.cc"
  chroot "$system" g++ -std=c++17 -O1 -o /product /product.cc -ldnnl
  for set in AVX512_CORE AVX512_CORE_BF16 AVX512_CORE_AMX; do
    if [ $set = AVX512_CORE_AMX ] && ! grep -qw amx_bf16 /proc/cpuinfo; then continue; fi
    chroot "$system" env ONEDNN_MAX_CPU_ISA=$set OMP_NUM_THREADS=2 /product >"$folder/output"
    sed "s/^/  | $found /" "$folder/output" >&2
    judge "$found" "$(tr '[:upper:]' '[:lower:]' <<<$set)"
  done
}

# judge VERSION SET: errors of f32 sums are below 1e-5. With AMX nothing is stated, so nothing can have changed.
judge() {
  local set rows implementation products error
  while read -r set rows implementation products error; do
    [ "$set" = "$2" ] || changed+=("$1 uses $set, expected $2")
    if [ "$set" = avx512_core_amx ]; then continue; fi
    awk -v error="$error" 'BEGIN { exit !(error < 1e-5) }' ||
      changed+=("$1, $set, $rows rows, $implementation: of $products products one is off by $error, expected less than 1e-5")
  done <"$folder/output"
}

main() {
  local changed=()
  if [ "${1:-}" = --help ]; then print_header && exit 0; fi
  [ $# -eq 0 ] || usage_error "unknown option $1"
  require
  folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-finding-XXXXXX")
  trap 'rm -rf --one-file-system "$folder"' EXIT
  check bookworm 2.6.3-1
  check trixie 3.7.2+ds-2
  if [ ${#changed[@]} -gt 0 ]; then
    printf 'changed: %s\n' "${changed[@]}"
    exit 1
  fi
  echo "as stated: with AVX-512, without AMX, both versions are right, also for a run-time number of rows"
}

main "$@"
