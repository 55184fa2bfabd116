#include "nmt/ops/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/result.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

/// Memory whose overwriting leaves nothing else in the cache.
std::size_t cache_bytes() {
  int device = 0, bytes = 0;
  require(cudaGetDevice(&device), "timing matmuls");
  require(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "timing matmuls");
  return 2 * static_cast<std::size_t>(bytes);
}

struct TimedPiece {
  int number;
  Event begin = make_timed_event(), end = make_timed_event();
};

}  // namespace

bool has_device_memory(std::size_t bytes) {
  constexpr std::size_t spare = std::size_t{64} << 20;
  std::size_t unused = 0, installed = 0;
  require(cudaMemGetInfo(&unused, &installed), "asking for free memory");
  return bytes + spare <= unused;
}

std::vector<float> time_with_cold_cache(int count, const std::function<bool(int)>& run, cudaStream_t stream) {
  constexpr int rounds = 3;
  constexpr float hopeless = 1.25f;
  const std::size_t overwritten = cache_bytes();
  if (!has_device_memory(overwritten)) return {};
  const Buffer cache = allocate_device(overwritten);
  std::vector<float> ms(static_cast<std::size_t>(count), infinite);
  std::vector<TimedPiece> pieces;
  for (int i = 0; i < count; ++i) {
    if (run(i)) pieces.push_back({i});  // a kernel is loaded when it first runs
  }
  for (int round = 0; round < rounds; ++round) {
    for (const TimedPiece& piece : pieces) {
      require(cudaMemsetAsync(cache.data(), round + 1, cache.bytes(), stream), "timing matmuls");
      require(cudaEventRecord(piece.begin.get(), stream), "timing matmuls");
      run(piece.number);
      require(cudaEventRecord(piece.end.get(), stream), "timing matmuls");
    }
    require(cudaStreamSynchronize(stream), "timing matmuls");
    for (const TimedPiece& piece : pieces) {
      float elapsed = 0;
      require(cudaEventElapsedTime(&elapsed, piece.begin.get(), piece.end.get()), "timing matmuls");
      float& least = ms[static_cast<std::size_t>(piece.number)];
      least = std::min(least, elapsed);
    }
    const float best = *std::min_element(ms.begin(), ms.end());
    std::erase_if(
        pieces, [&](const TimedPiece& piece) { return ms[static_cast<std::size_t>(piece.number)] > hopeless * best; });
  }
  return ms;
}

std::size_t shortest(const std::vector<float>& ms) {
  constexpr float worth_it = 0.98f;
  const auto best = std::min_element(ms.begin(), ms.end());
  return *best < worth_it * ms[0] ? static_cast<std::size_t>(best - ms.begin()) : 0;
}

namespace {

constexpr std::size_t library_memory = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr std::size_t bias_memory = std::size_t{1} << 20;
constexpr std::size_t max_entries = 16384;
constexpr std::uint16_t vector_bytes = 16;   // libraries read a bias in vectors
constexpr std::uint16_t buffer_bytes = 256;  // as arenas align tensors
constexpr int timed_proposals = 8;

BlasHandle make_handle() {
  cublasLtHandle_t handle = nullptr;
  require(cublasLtCreate(&handle), "cublasLtCreate");
  return BlasHandle(handle);
}

/// Devices of one text compute the same with the same algorithms, in the same time.
std::string current_gpu() {
  int device = 0, processors = 0;
  cudaDeviceProp properties{};
  require(cudaGetDevice(&device), "asking for the device");
  require(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking for multiprocessors");
  return fmt::format("{}, sm_{}{}, {} multiprocessors", properties.name, properties.major, properties.minor,
                     processors);
}

MatmulChoice choice_of(const MatmulAlgorithm& algorithm, float first_ms, float chosen_ms) {
  MatmulChoice choice{.first_ms = first_ms, .chosen_ms = chosen_ms};
  std::memcpy(&choice.algorithm, &algorithm.settings, sizeof choice.algorithm);
  return choice;
}

std::size_t bytes_of_c(const MatmulShape& shape) {
  const std::int64_t elements = (shape.batch - 1) * shape.c_batch + (shape.m - 1) * shape.c_row + shape.n;
  return static_cast<std::size_t>(elements) * size_of(shape.c_type);
}

MatmulShape bare(MatmulShape shape) {
  shape.epilogue = Epilogue::none;
  shape.bias_alignment = buffer_bytes;
  return shape;
}

}  // namespace

Matmul::Matmul(WorkStream stream)
    : stream_(stream), handle_(make_handle()), memory_(allocate_device(library_memory + bias_memory)) {}

Status Matmul::tune(const std::filesystem::path& file) {
  entries_.clear();
  const std::size_t version = cublasLtGetVersion();
  choices_.emplace(file, current_gpu(), fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100));
  return choices_->status();
}

Matmul::Entry& Matmul::entry_for(const MatmulShape& shape) {
  if (entries_.size() >= max_entries) entries_.clear();
  const MatmulShape key = choice_shape(shape);
  const auto known = entries_.find(key);
  if (known != entries_.end()) return known->second;
  const MatmulLibrary library{handle_.get(), memory_.data(), library_memory, stream_.handle()};
  Entry entry{.number = made_++, .plan = MatmulPlan(library, key), .proposed = {}};
  take_stored(entry);
  if (!entry.decided) entry.proposed = entry.plan.propose(choices_ ? timed_proposals : 1);
  return entries_.emplace(key, std::move(entry)).first->second;
}

void Matmul::take_stored(Entry& entry) const {
  const MatmulChoice* stored = choices_ ? choices_->find(entry.plan.shape()) : nullptr;
  if (stored == nullptr) return;
  MatmulAlgorithm algorithm;
  static_assert(sizeof algorithm.settings == sizeof stored->algorithm);
  std::memcpy(&algorithm.settings, &stored->algorithm, sizeof algorithm.settings);
  if (!entry.plan.accepts(algorithm)) return;
  entry.proposed = {algorithm};
  entry.decided = true;
  entry.first_ms = stored->first_ms, entry.chosen_ms = stored->chosen_ms;
}

/// Chooses once and for all: results must not depend on when a matmul comes again.
void Matmul::decide(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands, const void* bias) {
  entry.decided = true;
  if (!choices_) return;
  if (!recording()) time_proposals(entry, actual, operands, bias);
  choices_->add(entry.plan.shape(), choice_of(entry.algorithm(), entry.first_ms, entry.chosen_ms));
}

/// With the operands that are there. A result that is added to is left alone; others are written by the matmul anyway.
void Matmul::time_proposals(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands, const void* bias) {
  const std::size_t apart = actual.accumulate ? bytes_of_c(actual) : 0;
  if (apart > 0 && !has_device_memory(apart)) return;
  const Buffer result = allocate_device(apart);
  void* c = apart > 0 ? result.data() : operands.c;
  const auto run = [&](int i) {
    const MatmulAlgorithm& algorithm = entry.proposed[static_cast<std::size_t>(i)];
    return entry.plan.multiply(algorithm, actual, operands, bias, c) == CUBLAS_STATUS_SUCCESS;
  };
  const std::vector<float> ms = time_with_cold_cache(static_cast<int>(entry.proposed.size()), run, stream_.handle());
  if (ms.empty()) return;
  entry.chosen = shortest(ms);
  const auto known = [](float time) { return std::isfinite(time) ? time : 0; };
  entry.first_ms = known(ms[0]), entry.chosen_ms = known(ms[entry.chosen]);
}

bool Matmul::recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(stream_.handle(), &status), "asking whether a graph is recorded");
  return status != cudaStreamCaptureStatusNone;
}

const void* Matmul::bias_for_library(const MatmulShape& shape, const MatmulOperands& operands) const {
  if (!has_bias(shape.epilogue)) return nullptr;
  const void* given = operands.bias;
  if (shape.c_type == DType::bf16) {
    const bool fits = static_cast<std::size_t>(shape.n) * size_of(DType::bf16) <= bias_memory;
    given = operands.bias_copy;
    if (given == nullptr || alignment_of(given, 0, 0) < vector_bytes) {
      given = fits ? static_cast<const std::byte*>(memory_.data()) + library_memory : nullptr;
    }
  }
  return given != nullptr && alignment_of(given, 0, 0) >= vector_bytes ? given : nullptr;
}

void Matmul::round_bias(const MatmulShape& shape, const MatmulOperands& operands, const void* bias) const {
  if (bias == nullptr || shape.c_type != DType::bf16 || bias == operands.bias_copy) return;
  cast(ConstTensor(operands.bias, {shape.n}, DType::f32), Tensor(const_cast<void*>(bias), {shape.n}, DType::bf16),
       stream_);
}

bool Matmul::run_by_library(const MatmulShape& given, const MatmulOperands& operands) {
  if (given.k == 0) return false;
  const void* bias = bias_for_library(given, operands);
  MatmulShape shape = given;
  if (has_bias(given.epilogue)) {
    if (bias == nullptr) return false;
    shape.bias_alignment = alignment_of(bias, 0, 0, buffer_bytes);
  }
  Entry& entry = entry_for(shape);
  if (!entry.found()) return false;
  round_bias(shape, operands, bias);
  if (WorkLog* log = stream_.log()) {
    log->add(shape);
    log->add(operands);
    log->add(bias);
    return true;
  }
  if (!entry.decided) decide(entry, shape, operands, bias);
  const cublasStatus_t status = entry.plan.multiply(entry.algorithm(), shape, operands, bias, operands.c);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  // An algorithm chosen for a few more rows may refuse this number.
  MatmulShape exact = given;
  exact.varying = Varying::none;
  if (shape.varying == Varying::none || !run_by_library(exact, operands)) require(status, "a matmul");
  return true;
}

void Matmul::run(const MatmulShape& shape, const MatmulOperands& operands) {
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0 || run_by_library(shape, operands)) return;
  if (shape.epilogue == Epilogue::none) return launch_plain_matmul(shape, operands, stream_);
  const bool bias = has_bias(shape.epilogue);
  MatmulShape without = bare(shape);
  without.accumulate |= bias;
  if (bias) launch_bias(shape, operands, stream_);
  run(without, operands);
  if (shape.epilogue != Epilogue::bias) launch_relu(shape, operands, stream_);
}

std::vector<MatmulReport> Matmul::reports() const {
  std::vector<const Entry*> entries;
  for (const auto& [shape, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->number < b->number; });
  std::vector<MatmulReport> reports;
  for (const Entry* entry : entries) {
    const bool found = entry->found();
    reports.push_back({.matmul = text_of(entry->plan.shape()),
                       .epilogue = text_of(entry->plan.shape().epilogue),
                       .found = found,
                       .candidates = static_cast<int>(entry->proposed.size()),
                       .first_ms = entry->first_ms,
                       .chosen_ms = entry->chosen_ms,
                       .waves = found ? entry->algorithm().waves : 0,
                       .algorithm = found ? text_of(entry->algorithm().settings) : ""});
  }
  return reports;
}

}  // namespace babelring::cuda
