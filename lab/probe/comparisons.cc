#include "lab/probe/comparisons.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "lab/probe/probe_compare.h"

namespace babelring {
namespace {

/// Keeps every processor busy until it is destroyed.
class BusyProcessors {
 public:
  BusyProcessors() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      threads_.emplace_back([this] {
        while (!ended_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyProcessors() {
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  BusyProcessors(const BusyProcessors&) = delete;
  BusyProcessors& operator=(const BusyProcessors&) = delete;

 private:
  std::atomic<bool> ended_{false};
  std::vector<std::thread> threads_;
};

/// A file in the folder for temporary files, removed at the end.
class TemporaryProbe {
 public:
  explicit TemporaryProbe(int run)
      : file_(std::filesystem::temp_directory_path() / fmt::format("babelring-probe-{}-{}.jsonl", getpid(), run)) {}
  ~TemporaryProbe() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  TemporaryProbe(const TemporaryProbe&) = delete;
  TemporaryProbe& operator=(const TemporaryProbe&) = delete;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace

RepeatResult repeat_probe(const ProbePlan& plan, Backend& backend, int runs, bool busy) {
  std::optional<BusyProcessors> others;
  if (busy) others.emplace();
  RepeatResult result{.runs = runs};
  std::optional<Probe> first;
  std::map<std::int64_t, int> differences;  // runs in which the record of that number differed
  for (int run = 0; run < runs; ++run) {
    const TemporaryProbe temporary(run);
    save_probe(plan, backend, 0, temporary.file());
    Probe probe = read_probe(temporary.file());
    if (!first) {
      first = std::move(probe);
      continue;
    }
    const ProbeComparison comparison = compare_probes(*first, probe, {});
    if (comparison.sameness == Sameness::same) continue;
    ++result.different;
    for (const RecordPair& pair : comparison.pairs) {
      if (pair.sameness != Sameness::same && pair.a != nullptr) ++differences[pair.a->number];
    }
  }
  if (!differences.empty()) {
    result.first = first->records[static_cast<std::size_t>(differences.begin()->first)];
    result.first_different = differences.begin()->second;
  }
  return result;
}

namespace {

std::span<const std::uint32_t> bits_of(const ConstTensor& tensor) {
  return {tensor.as<std::uint32_t>(), static_cast<std::size_t>(tensor.shape.elements())};
}

/// Compares a parameter that both checkpoints have.
ParameterDifference difference_of(const std::string& name, const ConstTensor& a, const ConstTensor& b,
                                  const Tolerance& tolerance) {
  ParameterDifference found{.name = name, .shape_a = a.shape, .shape_b = b.shape};
  if (a.shape != b.shape) return found;
  found.sameness = Sameness::same;
  if (std::memcmp(a.data, b.data, a.bytes()) == 0) return found;
  found.distance = distance_of(bits_of(a), bits_of(b), DType::f32);
  found.worst_a = a.as<float>()[found.distance.ulp.at];
  found.worst_b = b.as<float>()[found.distance.ulp.at];
  const bool close = !tolerance.exact() && tolerance.allows(found.distance);
  found.sameness = close ? Sameness::close : Sameness::differs;
  return found;
}

}  // namespace

WeightsComparison compare_weights(const Checkpoint& a, const Checkpoint& b, const Tolerance& tolerance) {
  const TensorFiles first = a.weights(), second = b.weights();
  WeightsComparison comparison;
  const auto add = [&](ParameterDifference difference) {
    ++comparison.parameters;
    if (difference.sameness == Sameness::same) return;
    comparison.sameness = std::max(comparison.sameness, std::min(difference.sameness, Sameness::differs));
    comparison.differences.push_back(std::move(difference));
  };
  for (const std::string& name : first.names()) {
    const ConstTensor tensor = first.tensor(name);
    if (second.contains(name)) {
      const ConstTensor same_type = first.tensor(name, tensor.shape);
      const ConstTensor other = second.tensor(name);
      add(difference_of(name, same_type, second.tensor(name, other.shape), tolerance));
    } else {
      add({.name = name, .sameness = Sameness::missing, .shape_a = tensor.shape, .in_b = false});
    }
  }
  for (const std::string& name : second.names()) {
    if (first.contains(name)) continue;
    const Shape shape = second.tensor(name).shape;
    add({.name = name, .sameness = Sameness::missing, .shape_b = shape, .in_a = false});
  }
  return comparison;
}

json::object to_json(const WeightsComparison& comparison) {
  json::array list;
  for (const ParameterDifference& difference : comparison.differences) {
    json::object object = {{"name", difference.name}, {"result", name_of(difference.sameness)}};
    if (!difference.in_a || !difference.in_b) object["missing_in"] = difference.in_a ? "b" : "a";
    if (difference.in_a) object["shape_a"] = difference.shape_a.text();
    if (difference.in_b) object["shape_b"] = difference.shape_b.text();
    const TensorDistance& distance = difference.distance;
    if (distance.different > 0) {
      object["elements"] = distance.compared;
      object["different"] = distance.different;
      object["absolute"] = distance.worst.absolute;
      object["relative"] = distance.worst.relative;
      object["ulp"] = distance.worst.ulp;
      object["element"] = distance.ulp.at;
      object["a"] = difference.worst_a;
      object["b"] = difference.worst_b;
    }
    list.push_back(std::move(object));
  }
  const bool differ = comparison.sameness == Sameness::differs;
  return {{"weights", differ ? "differ" : name_of(comparison.sameness)},
          {"parameters", comparison.parameters},
          {"differences", std::move(list)}};
}

}  // namespace babelring
