#include "nmt/checkpoint/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/names.h"
#include "base/result.h"

namespace babelring {
namespace {

constexpr std::string_view leaf_prefix("\0", 1), node_prefix("\1", 1);

std::string root_of(std::span<const std::string> leaves) {
  if (leaves.size() == 1) return leaves.front();
  const std::size_t left = std::bit_floor(leaves.size() - 1);
  return Sha256().add(node_prefix).add(root_of(leaves.first(left))).add(root_of(leaves.subspan(left))).hex();
}

}  // namespace

std::string merkle_root(const std::map<std::string, std::string>& parameters) {
  std::vector<std::string> leaves;
  for (const auto& [name, digest] : parameters) {
    leaves.push_back(Sha256().add(leaf_prefix).add(name).add(" ").add(digest).hex());
  }
  return leaves.empty() ? sha256_hex("") : root_of(leaves);
}

WeightsDigest digest_of_weights(std::span<const NamedTensor> weights) {
  WeightsDigest digest;
  for (const NamedTensor& weight : weights) {
    digest.parameters[weight.name] = Sha256().add(weight.tensor.data, weight.tensor.bytes()).hex();
  }
  digest.root = merkle_root(digest.parameters);
  return digest;
}

json::object to_json(const WeightsDigest& digest) {
  json::object parameters;
  for (const auto& [name, sha256] : digest.parameters) parameters[name] = sha256;
  return {{"root", digest.root}, {"parameters", std::move(parameters)}};
}

WeightsDigest weights_digest_from_json(const json::value& value) {
  const json::object* parameters = value.is_object() ? get_object(value.get_object(), "parameters") : nullptr;
  if (parameters == nullptr) fail("member 'weights': expected an object with 'root' and 'parameters'");
  WeightsDigest digest{.parameters = {}, .root = get_text(value.get_object(), "root")};
  for (const auto& member : *parameters) digest.parameters[member.key()] = get_text(*parameters, member.key());
  if (const std::string root = merkle_root(digest.parameters); digest.root != root) {
    fail("member 'weights': root {:.12}…, expected {:.12}… from its parameters", digest.root, root);
  }
  return digest;
}

ParameterSpan parameters_of_shard(const std::deque<Parameter>& parameters, ShardIndex place) {
  if (parameters.empty()) return {};
  const auto end_of = [](const Parameter& parameter) { return parameter.offset + parameter.shape.elements(); };
  const std::int64_t total = end_of(parameters.back());
  // The index of the first parameter whose middle lies in shard `index` or behind it.
  const auto first_of = [&](int index) {
    const auto at = std::partition_point(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
      return (parameter.offset + end_of(parameter)) * place.count < 2 * total * index;
    });
    return static_cast<std::size_t>(at - parameters.begin());
  };
  return {.begin = first_of(place.index), .end = first_of(place.index + 1)};
}

CheckpointShard write_shard(const std::filesystem::path& folder, ShardIndex place, std::span<const NamedTensor> weights,
                            std::span<const NamedTensor> optimizer) {
  const Stopwatch watch;
  require_finite(weights);
  const auto write = [&](std::string_view tensors, std::span<const NamedTensor> content) {
    return write_safetensors(folder / tensor_file_name(tensors, place.index, place.count), content);
  };
  CheckpointShard shard;
  shard.weights = write(weight_tensors, weights);
  shard.optimizer = write(optimizer_tensors, optimizer);
  shard.digest = digest_of_weights(weights);
  shard.write_seconds = watch.elapsed_ms() / 1000;
  return shard;
}

json::object to_json(const CheckpointShard& shard) {
  return {{"weights", to_json(shard.weights)},
          {"optimizer", to_json(shard.optimizer)},
          {"digest", to_json(shard.digest)},
          {"write_seconds", shard.write_seconds}};
}

CheckpointShard shard_from_json(const json::value& value) {
  return {.weights = checkpoint_file_from_json(value.at("weights")),
          .optimizer = checkpoint_file_from_json(value.at("optimizer")),
          .digest = weights_digest_from_json(value.at("digest")),
          .write_seconds = value.at("write_seconds").to_number<double>()};
}

WeightsDigest digest_of_shards(std::span<const CheckpointShard> shards) {
  WeightsDigest digest;
  for (const CheckpointShard& shard : shards) {
    digest.parameters.insert(shard.digest.parameters.begin(), shard.digest.parameters.end());
  }
  digest.root = merkle_root(digest.parameters);
  return digest;
}

json::object to_json(const CheckpointFile& file) {
  return {{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}};
}

CheckpointFile checkpoint_file_from_json(const json::value& value) {
  const json::object& file = value.as_object();
  return {.name = std::string(std::string_view(file.at("name").as_string())),
          .size = file.at("size").as_int64(),
          .sha256 = std::string(std::string_view(file.at("sha256").as_string()))};
}

TensorFiles::TensorFiles(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files) {
    const SafetensorsReader& reader = files_.emplace_back(file);
    for (const SafetensorsEntry& entry : reader.entries()) {
      const auto [known, added] = file_of_.emplace(entry.name, files_.size() - 1);
      if (!added) {
        fail("safetensors {}: tensor '{}' is in {}, too", file.string(), printable(entry.name),
             files_[known->second].file().filename().string());
      }
      names_.push_back(entry.name);
    }
  }
}

ConstTensor TensorFiles::tensor(std::string_view name) const {
  return reader_of(name).tensor(name);
}

ConstTensor TensorFiles::tensor(std::string_view name, const Shape& shape, DType dtype) const {
  return reader_of(name).tensor(name, shape, dtype);
}

const SafetensorsReader& TensorFiles::reader_of(std::string_view name) const {
  if (const auto at = file_of_.find(name); at != file_of_.end()) return files_[at->second];
  if (files_.size() == 1) return files_.front();  // whose message names its file
  fail("safetensors {}: no tensor '{}', nor in the other {} of {} files", files_.front().file().string(),
       printable(name), files_.size() - 1, files_.size());
}

namespace {

constexpr std::int64_t block_elements = 4096;

/// Branch-free per element, so that compilers vectorise it.
bool all_finite(const float* values, std::int64_t count) {
  constexpr std::uint32_t magnitude = 0x7fffffff, infinity = 0x7f800000;
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & magnitude);
  }
  return largest < infinity;
}

/// The indices of an element as text: "[3, 17]".
std::string index_text(std::int64_t element, const Shape& shape) {
  std::string indices;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices = fmt::format("{}{}{}", element % shape[axis], indices.empty() ? "" : ", ", indices);
    element /= shape[axis];
  }
  return "[" + indices + "]";
}

}  // namespace

Status check_finite(std::span<const NamedTensor> tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype != DType::f32) continue;
    const auto* values = tensor.as<float>();
    const std::int64_t count = tensor.shape.elements();
    for (std::int64_t begin = 0; begin < count; begin += block_elements) {
      const std::int64_t end = std::min(count, begin + block_elements);
      if (all_finite(values + begin, end - begin)) continue;
      const auto* found = std::find_if_not(values + begin, values + end, [](float x) { return std::isfinite(x); });
      return Error{fmt::format("{}{} is {}", printable(name), index_text(found - values, tensor.shape), *found)};
    }
  }
  return {};
}

void release_pages(const ConstTensor& mapped) {
  release_pages({mapped.as<std::byte>(), mapped.bytes()});
}

Status check_finite(const TensorFiles& weights) {
  for (const SafetensorsReader& file : weights.files()) {
    for (const SafetensorsEntry& entry : file.entries()) {
      if (entry.dtype != "F32") continue;
      const NamedTensor tensor = {entry.name, file.tensor(entry.name)};
      if (const Status finite = check_finite({&tensor, 1}); !finite) {
        return Error{fmt::format("{}: weights are not finite: {}", file.file().string(), finite.error())};
      }
      release_pages(tensor.tensor);
    }
  }
  return {};
}

void require_finite(std::span<const NamedTensor> weights) {
  if (const Status finite = check_finite(weights); !finite) fail("weights are not finite: {}", finite.error());
}

void require_finite(const TensorFiles& weights) {
  check_finite(weights).value();
}

}  // namespace babelring
