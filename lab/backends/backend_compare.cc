#include "lab/backends/backend_compare.h"

#include <filesystem>
#include <utility>

#include "base/failure.h"
#include "lab/backends/remaining_ops.h"
#include "lab/backends/widening_backend.h"
#include "nmt/ops/cuda_module.h"
#include "nmt/ops/precision.h"

namespace babelring {

namespace {

constexpr char emulated_file[] = "libbabelring_cuda_emulated.so";

std::unique_ptr<Backend> make_emulated(const std::string& option) {
  std::error_code ignored;
  const std::filesystem::path file =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / emulated_file;
  if (!std::filesystem::exists(file, ignored)) {
    throw UsageFailure(
        fmt::format("{}: found no {}, which only builds with tests have beside their programs", option, file.string()));
  }
  const Result<CudaDevices> devices = open_cuda_module(file);
  if (!devices) throw UsageFailure(fmt::format("{}: {}", option, devices.error()));
  return make_backend_of(*devices->module, 0);
}

}  // namespace

BackendComparison compare_backends(const ProbePlan& plan, std::unique_ptr<Backend> a, std::unique_ptr<Backend> b) {
  const DType precision = plan.config.training.precision;
  for (Backend* backend : {a.get(), b.get()}) require_matmul(*backend, precision, "--precision f32");
  BackendComparison comparison{.a = a->description(), .b = b->description(), .differences = {}};
  ComparingBackend both(std::move(a), std::move(b));
  run_updates(plan, both);
  run_remaining_ops(both, precision);
  comparison.differences = both.differences();
  return comparison;
}

json::object to_json(const BackendComparison& comparison) {
  json::array ops;
  for (const OpDifference& difference : comparison.differences) {
    json::object row = {
        {"op", difference.op},       {"member", difference.member},     {"dtype", name_of(difference.dtype)},
        {"calls", difference.calls}, {"elements", difference.elements}, {"different", difference.different},
        {"ulp", difference.ulp},     {"relative", difference.relative}};
    if (difference.element >= 0) {
      row["worst"] = {{"range", difference.range},     {"call", difference.call}, {"shape", difference.shape.text()},
                      {"element", difference.element}, {"a", difference.value_a}, {"b", difference.value_b}};
    }
    ops.push_back(std::move(row));
  }
  return {{"a", comparison.a}, {"b", comparison.b}, {"ops", std::move(ops)}};
}

std::unique_ptr<Backend> make_named_backend(const std::string& option, const std::string& name, int threads) {
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "f32") return make_widening_backend(make_cpu_backend(threads));
  if (name == "emulated-cuda") return make_emulated(option);
  if (name != "cuda")
    throw UsageFailure(fmt::format("{}: expected cpu, cuda, emulated-cuda or f32, found '{}'", option, name));
  if (!find_cuda()) throw UsageFailure(fmt::format("{}: {}", option, find_cuda().error()));
  return make_cuda_backend(0);
}

}  // namespace babelring
