#include "nmt/ops/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/failure.h"
#include "nmt/core/processors.h"
#include "nmt/ops/cpu/kernel_sets.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu_kernels.h"

namespace babelring {

namespace {

int default_threads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) return own_processors().count();
  constexpr int max_threads = 1024;  // as training.threads
  const int threads = omp_get_max_threads();
  if (threads <= max_threads) return threads;
  throw UsageFailure(fmt::format("OMP_NUM_THREADS: found {}, expected 1 to {}", threads, max_threads));
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  if (threads < 0) fail("cpu backend: {} threads, 0 (all) or more are needed", threads);
  return std::make_unique<cpu::CpuBackend>(threads == 0 ? default_threads() : threads);
}

std::string cpu_kernels() {
  return fmt::format("{} kernels, {}", cpu::name_of(cpu::kernel_set()), cpu::matmul_description());
}

std::string cpu_instruction_sets() {
  return fmt::format("{} kernels, oneDNN for {}", cpu::name_of(cpu::kernel_set()), cpu::matmul_instruction_set());
}

std::string onednn_version() {
  return cpu::matmul_library_version();
}

namespace cpu {

CpuBackend::CpuBackend(int threads) : context_(threads), waiting_(threads) {}

std::unique_ptr<const PackedWeight> CpuBackend::pack(ConstTensor weight) {
  if (!weight.contiguous()) fail("pack: {} has a row stride of {}", weight.shape.text(), weight.row_stride);
  Buffer elements = kernels_of(context_.kernel_set()).pack(weight, context_);
  return std::make_unique<PackedWeight>(
      PackedWeight{weight.shape, weight.dtype, enter(MemoryPurpose::decoding, std::move(elements))});
}

void CpuBackend::upload(const void* host, Tensor to) {
  if (!to.contiguous()) fail("upload: {} has a row stride of {}", to.shape.text(), to.row_stride);
  if (to.bytes() > 0) std::memcpy(to.data, host, to.bytes());
}

void CpuBackend::download(ConstTensor from, void* host) {
  if (!from.contiguous()) fail("download: {} has a row stride of {}", from.shape.text(), from.row_stride);
  if (from.bytes() > 0) std::memcpy(host, from.data, from.bytes());
}

std::string CpuBackend::description() const {
  return fmt::format("cpu ({}, {} thread{})", cpu_kernels(), context_.threads(), context_.threads() == 1 ? "" : "s");
}

template <class Op>
void CpuBackend::launch(const Op& op) {
  waiting_.look();
  // oneDNN asks OpenMP for the calling thread's number of threads.
  if (omp_get_max_threads() != context_.threads()) omp_set_num_threads(context_.threads());
  cpu::run(op, context_);
}

}  // namespace cpu
}  // namespace babelring
