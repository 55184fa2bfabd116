#include "nmt/ops/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/failure.h"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/matmul_timer.h"

namespace babelring::cuda {

namespace {

constexpr std::size_t library_memory = std::size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr std::size_t bias_memory = std::size_t{1} << 20;
constexpr std::size_t max_entries = 16384;
constexpr std::uint16_t vector_bytes = 16;   // libraries read a bias in vectors
constexpr std::uint16_t buffer_bytes = 256;  // as arenas align tensors
constexpr int timed_proposals = 8;
// How much of the device an algorithm that sums the bias gradient too must fill, compared with that of the bare
// matmul. The latter splits its depth, the batch's rows, where the weight has too few tiles for all processors; the
// former may not be able to.
constexpr float min_share_of_waves = 0.8f;

BlasHandle make_handle() {
  cublasLtHandle_t handle = nullptr;
  require(cublasLtCreate(&handle), "cublasLtCreate");
  return BlasHandle(handle);
}

/// Whether the environment's BABELRING_CUDA_EPILOGUES allows those that only training uses.
bool epilogues_for_training() {
  const char* found = std::getenv("BABELRING_CUDA_EPILOGUES");
  const std::string_view value = found == nullptr ? "all" : found;
  if (value != "all" && value != "forward") fail("BABELRING_CUDA_EPILOGUES is {}, all or forward is needed", value);
  return value != "forward";
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

MatmulChoice choice_of(const std::optional<MatmulAlgorithm>& algorithm, float first_ms, float chosen_ms) {
  MatmulChoice choice{.first_ms = first_ms, .chosen_ms = chosen_ms};
  if (!algorithm) return choice;
  static_assert(sizeof algorithm->settings == sizeof *choice.algorithm);
  std::memcpy(&choice.algorithm.emplace(), &algorithm->settings, sizeof algorithm->settings);
  return choice;
}

std::size_t bytes_of_c(const MatmulShape& shape) {
  const std::int64_t elements = (shape.batch - 1) * shape.c_batch + (shape.m - 1) * shape.c_row + shape.n;
  return static_cast<std::size_t>(elements) * size_of(shape.c_type);
}

MatmulShape bare(MatmulShape shape) {
  shape.epilogue = Epilogue::none;
  shape.vector_alignment = buffer_bytes;
  return shape;
}

}  // namespace

Matmul::Matmul(WorkStream stream)
    : stream_(stream),
      for_training_(epilogues_for_training()),
      handle_(make_handle()),
      memory_(allocate_device(library_memory + bias_memory)) {}

Status Matmul::tune(const std::filesystem::path& file) {
  entries_.clear();
  const std::size_t version = cublasLtGetVersion();
  choices_.emplace(file, current_gpu(), fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100));
  return choices_->status();
}

Matmul::Entry& Matmul::entry_for(const MatmulShape& shape) {
  const MatmulShape key = choice_shape(shape);
  const auto known = entries_.find(key);
  if (known != entries_.end()) return known->second;
  const MatmulLibrary library{handle_.get(), memory_.data(), library_memory, stream_.handle()};
  Entry entry{.number = made_++, .plan = MatmulPlan(library, key), .proposed = {}};
  take_stored(entry);
  if (!entry.decided) entry.proposed = entry.plan.propose(choices_ ? timed_proposals : 1);
  if (!choices_ && key.epilogue == Epilogue::bias_gradient && entry.found()) entry.worth_it = fills_the_device(entry);
  return entries_.emplace(key, std::move(entry)).first->second;
}

void Matmul::take_stored(Entry& entry) const {
  const MatmulChoice* stored = choices_ ? choices_->find(entry.plan.shape()) : nullptr;
  if (stored == nullptr) return;
  if (stored->algorithm) {
    MatmulAlgorithm algorithm;
    std::memcpy(&algorithm.settings, &*stored->algorithm, sizeof algorithm.settings);
    if (!entry.plan.accepts(algorithm)) return;
    entry.proposed = {algorithm};
  }
  entry.decided = true;
  entry.first_ms = stored->first_ms, entry.chosen_ms = stored->chosen_ms;
}

bool Matmul::fills_the_device(const Entry& entry) {
  const Entry& without = entry_for(bare(entry.plan.shape()));
  const float waves = without.found() ? without.algorithm().waves : 0;
  return entry.algorithm().waves >= min_share_of_waves * std::min(1.0f, waves);
}

/// Chooses once and for all: results must not depend on when a matmul comes again.
void Matmul::decide(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands,
                    const std::function<void()>& otherwise) {
  entry.decided = true;
  if (!choices_ || !entry.found()) return;
  if (!recording()) time_proposals(entry, actual, operands);
  if (actual.epilogue == Epilogue::bias_gradient) {
    entry.worth_it = entry.chosen_ms > 0 && otherwise ? beats_the_bare_matmul(entry, actual, operands, otherwise)
                                                      : fills_the_device(entry);
  }
  const auto algorithm = entry.worth_it ? std::optional(entry.algorithm()) : std::nullopt;
  choices_->add(entry.plan.shape(), choice_of(algorithm, entry.first_ms, entry.chosen_ms));
}

/// With the operands that are there. A result that is added to is left alone; others are written by the matmul anyway.
void Matmul::time_proposals(Entry& entry, const MatmulShape& actual, const MatmulOperands& operands) {
  const std::size_t apart = actual.accumulate ? bytes_of_c(actual) : 0;
  if (apart > 0 && !has_device_memory(apart)) return;
  const Buffer result = allocate_device(apart);
  void* c = apart > 0 ? result.data() : operands.c;
  const void* vector = has_vector(actual.epilogue) ? vector_for_library(actual, operands) : nullptr;
  const auto run = [&](int i) {
    const MatmulAlgorithm& algorithm = entry.proposed[static_cast<std::size_t>(i)];
    return entry.plan.multiply(algorithm, actual, operands, vector, c) == CUBLAS_STATUS_SUCCESS;
  };
  const std::vector<float> ms = time_with_cold_cache(static_cast<int>(entry.proposed.size()), run, stream_.handle());
  if (ms.empty()) return;
  entry.chosen = shortest(ms);
  const auto known = [](float time) { return std::isfinite(time) ? time : 0; };
  entry.first_ms = known(ms[0]), entry.chosen_ms = known(ms[entry.chosen]);
}

bool Matmul::beats_the_bare_matmul(const Entry& entry, const MatmulShape& actual, const MatmulOperands& operands,
                                   const std::function<void()>& otherwise) {
  Entry& without = entry_for(bare(actual));
  if (!without.decided) decide(without, bare(actual), operands, {});
  if (!without.found() || without.chosen_ms == 0) return true;
  const auto run = [&](int) {
    otherwise();
    return true;
  };
  const std::vector<float> ms = time_with_cold_cache(1, run, stream_.handle());
  return ms.empty() || entry.chosen_ms <= without.chosen_ms + ms[0];
}

bool Matmul::recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(stream_.handle(), &status), "asking whether a graph is recorded");
  return status != cudaStreamCaptureStatusNone;
}

MatmulShape Matmul::aligned_shape(const MatmulShape& shape, const void* vector) {
  MatmulShape aligned = shape;
  if (has_vector(shape.epilogue)) aligned.vector_alignment = alignment_of(vector, 0, 0, buffer_bytes);
  return aligned;
}

const void* Matmul::vector_for_library(const MatmulShape& shape, const MatmulOperands& operands) const {
  const void* given = shape.epilogue == Epilogue::bias_gradient ? operands.bias_gradient : operands.bias;
  if (has_bias(shape.epilogue) && shape.c_type == DType::bf16) {
    const bool fits = static_cast<std::size_t>(shape.n) * size_of(DType::bf16) <= bias_memory;
    given = operands.bias_copy;
    if (alignment_of(given, 0, 0) < vector_bytes || given == nullptr) {
      given = fits ? static_cast<const std::byte*>(memory_.data()) + library_memory : nullptr;
    }
  }
  return given != nullptr && alignment_of(given, 0, 0) >= vector_bytes ? given : nullptr;
}

void Matmul::round_bias(const MatmulShape& shape, const MatmulOperands& operands, const void* vector) const {
  if (!has_bias(shape.epilogue) || shape.c_type != DType::bf16 || vector == operands.bias_copy) return;
  cast(ConstTensor(operands.bias, {shape.n}, DType::f32), Tensor(const_cast<void*>(vector), {shape.n}, DType::bf16),
       stream_);
}

bool Matmul::has(const MatmulShape& shape, const MatmulOperands& operands) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batch == 0) return false;
  if (entries_.size() >= max_entries) entries_.clear();
  if (shape.epilogue > Epilogue::bias_relu && !for_training_) return false;
  if (has_mask(shape.epilogue) && alignment_of(operands.relu_mask, 0, 0, buffer_bytes) < buffer_bytes) return false;
  if (!has_vector(shape.epilogue)) return entry_for(shape).found();
  const void* vector = vector_for_library(shape, operands);
  return vector != nullptr && entry_for(aligned_shape(shape, vector)).found();
}

bool Matmul::run_fused(const MatmulShape& given, const MatmulOperands& operands,
                       const std::function<void()>& otherwise) {
  if (!has(given, operands)) return false;
  const void* vector = has_vector(given.epilogue) ? vector_for_library(given, operands) : nullptr;
  const MatmulShape shape = aligned_shape(given, vector);
  round_bias(shape, operands, vector);
  WorkLog* log = stream_.log();
  if (Entry& entry = entry_for(shape); !entry.decided && log == nullptr) decide(entry, shape, operands, otherwise);
  Entry& entry = entry_for(shape);
  if (!entry.found()) return false;
  if (log != nullptr) {
    log->add(shape);
    log->add(operands);
    log->add(vector);
    return true;
  }
  const cublasStatus_t status = entry.plan.multiply(entry.algorithm(), shape, operands, vector, operands.c);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  // What was chosen for a few more rows may not take these.
  MatmulShape exact = given;
  exact.varying = Varying::none;
  if (shape.varying == Varying::none || !run_fused(exact, operands, otherwise)) require(status, "a matmul");
  return true;
}

void Matmul::run(const MatmulShape& shape, const MatmulOperands& operands) {
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0 || run_fused(shape, operands)) return;
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
    const bool found = entry->found(), proposed = !entry->proposed.empty();
    reports.push_back({.matmul = text_of(entry->plan.shape()),
                       .epilogue = text_of(entry->plan.shape().epilogue),
                       .found = found,
                       .candidates = static_cast<int>(entry->proposed.size()),
                       .first_ms = entry->first_ms,
                       .chosen_ms = entry->chosen_ms,
                       .waves = proposed ? entry->algorithm().waves : 0,
                       .algorithm = proposed ? text_of(entry->algorithm().settings) : ""});
  }
  return reports;
}

}  // namespace babelring::cuda
