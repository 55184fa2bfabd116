#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "lab/probe/tensor_distance.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Role of a tensor in its layer.
enum class ProbeRole { output, grad_input, weight_grad, weight, other };

std::string_view name_of(ProbeRole role);

/// One tensor that an op wrote, at that time. `number` counts the records of a file from 0.
struct ProbeRecord {
  std::int64_t number = 0;
  std::int64_t update = 0;
  int micro_batch = -1;  // -1: outside of micro-batches
  std::string phase, layer, op, member;
  int occurrence = 0;  // of this combination of the members above, from 0
  ProbeRole role = ProbeRole::other;
  Shape shape;
  DType dtype = DType::f32;
  TensorSummary summary;
  std::vector<std::int64_t> inputs;  // numbers of the records behind the op's inputs
  bool left_out = false;             // inputs also come from ops without a record: of other layers or ranks
  bool batch = false;                // the op read the batch: token ids or lists

  /// Key that is equal for the same record of two probes: "1/0/forward/encoder.0/attention_forward/out/0".
  std::string key() const;
};

/// The digests and the environment of a probe. Text members are empty where unknown.
struct ProbeHeader {
  static constexpr std::int64_t current_version = 2;

  std::string program;  // version of Babelring
  std::string mode;     // training or inference
  std::int64_t first_update = 1, updates = 1;
  int rank = 0, ranks = 1;
  std::string model;          // digest of shapes and vocabulary size
  std::string configuration;  // digest
  std::string corpus;         // digest
  std::string weights;        // before the first update: root of WeightsDigest
  std::string precision, device;
  std::int64_t threads = 0;
  std::string layers, tensors;  // the filters
  json::object environment;     // name: text
};

/// A probe: header, records and the members of its last line.
struct Probe {
  std::filesystem::path file;
  ProbeHeader header;
  std::vector<ProbeRecord> records;
  std::string batch;  // digest of what ops read and nobody wrote, such as token ids
};

json::object to_json(const ProbeHeader& header);
json::object to_json(const ProbeRecord& record);

/// Reads a probe. Older ones do not say whether inputs were left out or belong to the batch: both are then assumed
/// where they may be so. Throws Failure naming the file, the line and what is wrong: another format or version, a torn
/// or empty file, a member that is missing or has another type.
Probe read_probe(const std::filesystem::path& file);

/// Parses the text of a probe file; `name` stands for the file in messages.
Probe parse_probe(std::string_view text, const std::string& name);

/// The file of the whole tensors that belong to a probe: the same name with .safetensors in the place of .jsonl.
std::filesystem::path tensors_file(const std::filesystem::path& probe);

/// The name of a record's tensor in that file.
std::string tensor_name(const ProbeRecord& record);

/// A difference of two headers: "threads: 1 and 2", with "none" in the place of an empty text.
std::string header_difference(const std::string& name, const std::string& a, const std::string& b);

/// How two environments differ.
struct EnvironmentDifferences {
  std::vector<std::string> libraries;  // whose versions both probes name: "oneDNN differs: 2.6.3 / 3.7.2"
  std::vector<std::string> others;     // as header_difference() tells them, by name
};
EnvironmentDifferences compare_environments(const json::object& a, const json::object& b);

}  // namespace babelring
