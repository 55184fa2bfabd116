#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string_view>

#include "base/failure.h"
#include "base/tensor_file_name.h"
#include "base/work_folder.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/checkpoint/finite.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

bool is_rewritten(std::string_view name) {
  return shards_of_file(name, weight_tensors) > 0 || shards_of_file(name, optimizer_tensors) > 0 ||
         name == "state.json";
}

/// Element-wise mean of a tensor over all inputs, summed in double in the order of inputs.
std::vector<float> mean_of(const std::vector<TensorFiles>& inputs, const std::string& name, const Shape& shape) {
  std::vector<double> sum(static_cast<std::size_t>(shape.elements()));
  for (const TensorFiles& input : inputs) {
    const auto* values = input.tensor(name, shape).as<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]);
  }
  std::vector<float> mean(sum.size());
  const auto count = static_cast<double>(inputs.size());
  for (std::size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / count);
  return mean;
}

std::unique_ptr<WorkFolder> work_folder_of(const fs::path& output) try {
  return std::make_unique<WorkFolder>(output.parent_path(), output.filename().string());
} catch (const UsageFailure&) {
  throw;
} catch (const Failure& failure) {
  fail("average: {}", failure.what());
}

}  // namespace

Checkpoint average_checkpoints(const std::vector<fs::path>& inputs, const fs::path& output) try {
  if (inputs.empty()) throw UsageFailure("average: expected at least one checkpoint, found none");
  const fs::path absolute = named_folder(output);
  const std::unique_ptr<WorkFolder> work = work_folder_of(absolute);
  if (fs::exists(output)) throw UsageFailure(fmt::format("average: {} exists already", output.string()));
  std::vector<Checkpoint> checkpoints;
  std::vector<TensorFiles> weights;
  json::array names;
  for (const fs::path& input : inputs) {
    checkpoints.push_back(load_checkpoint(input).value());
    weights.push_back(checkpoints.back().weights());
    require_finite(weights.back());
    names.emplace_back(checkpoints.back().folder.filename().string());
    if (weights.back().names().size() != weights.front().names().size()) {
      fail("average: {} has {} tensors, {} has {}", inputs.front().string(), weights.front().names().size(),
           input.string(), weights.back().names().size());
    }
  }

  const Checkpoint& last = checkpoints.back();
  CheckpointContent content{.update = last.update, .state = last.state};
  content.state["averaged_from"] = std::move(names);
  for (const CheckpointFile& file : last.files) {
    if (!is_rewritten(file.name)) content.copies[file.name] = last.folder / file.name;
  }
  std::vector<std::vector<float>> means;
  for (const std::string& name : weights.front().names()) {
    const Shape shape = weights.front().tensor(name).shape;
    means.push_back(mean_of(weights, name, shape));
    content.weights.push_back({name, ConstTensor(means.back().data(), shape, DType::f32)});
  }

  write_checkpoint_files(content, work->path());
  work->publish(absolute);
  return load_checkpoint(absolute).value();
} catch (const fs::filesystem_error& error) {
  fail("average: {}: {}", error.path1().string(), error.code().message());
}

}  // namespace babelring
