#include "lab/probe/probe_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "base/records/library_versions.h"
#include "base/result.h"

namespace babelring {

namespace {

constexpr std::string_view format_name = "babelring-probe";
constexpr ProbeRole all_roles[] = {ProbeRole::output, ProbeRole::grad_input, ProbeRole::weight_grad, ProbeRole::weight,
                                   ProbeRole::other};

std::string hex_of(const std::vector<std::uint32_t>& bits, DType type) {
  std::string text;
  for (const std::uint32_t element : bits) text += fmt::format("{:0{}x}", element, 2 * size_of(type));
  return text;
}

/// One line of a file, with its place for messages.
class Line {
 public:
  Line(std::string_view text, const std::string& file, std::size_t number) : file_(file), number_(number) {
    const Result<json::value> value = parse_json(text);
    if (!value) refuse(value.error());
    if (!value->is_object()) refuse("expected a JSON object");
    object_ = value->as_object();
  }

  [[noreturn]] void refuse(const std::string& what) const { fail("{}:{}: {}", file_, number_, what); }
  bool has(std::string_view name) const { return object_.contains(name); }
  std::string text(std::string_view name) const {
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_string()) refuse(fmt::format("member '{}': expected a text", name));
    return std::string(value->get_string());
  }
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high) const {
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_int64() || value->get_int64() < low || value->get_int64() > high) {
      refuse(fmt::format("member '{}': expected an integer from {} to {}", name, low, high));
    }
    return value->get_int64();
  }
  double number(std::string_view name) const {
    const std::optional<double> value = get_number(object_, name);
    if (!value) refuse(fmt::format("member '{}': expected a number", name));
    return *value;
  }
  bool flag(std::string_view name) const {
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_bool()) refuse(fmt::format("member '{}': expected true or false", name));
    return value->get_bool();
  }
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t low, std::int64_t high) const {
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_array()) refuse(fmt::format("member '{}': expected a list", name));
    std::vector<std::int64_t> numbers;
    for (const json::value& each : value->get_array()) {
      if (!each.is_int64() || each.get_int64() < low || each.get_int64() > high) {
        refuse(fmt::format("member '{}': expected integers from {} to {}", name, low, high));
      }
      numbers.push_back(each.get_int64());
    }
    return numbers;
  }
  const json::object& object() const { return object_; }

 private:
  const std::string& file_;
  std::size_t number_;
  json::object object_;
};

constexpr std::int64_t max_number = std::int64_t{1} << 53;

ProbeHeader header_of(const Line& line) {
  if (get_text(line.object(), "format") != format_name) {
    line.refuse(fmt::format("no probe: expected a first line with \"format\":\"{}\"", format_name));
  }
  if (const std::int64_t version = line.integer("version", 0, max_number); version != ProbeHeader::current_version) {
    line.refuse(
        fmt::format("probe format version {}, this program reads version {}", version, ProbeHeader::current_version));
  }
  ProbeHeader header{.program = line.text("program"),
                     .mode = line.text("mode"),
                     .first_update = line.integer("first_update", 0, max_number),
                     .updates = line.integer("updates", 0, max_number),
                     .rank = static_cast<int>(line.integer("rank", 0, 1 << 24)),
                     .ranks = static_cast<int>(line.integer("ranks", 1, 1 << 24)),
                     .model = line.text("model"),
                     .configuration = line.text("configuration"),
                     .corpus = line.text("corpus"),
                     .weights = line.text("weights"),
                     .precision = line.text("precision"),
                     .device = line.text("device"),
                     .threads = line.integer("threads", 0, max_number),
                     .layers = line.text("layers"),
                     .tensors = line.text("tensors"),
                     .environment = {}};
  if (const json::object* environment = get_object(line.object(), "environment")) header.environment = *environment;
  return header;
}

Shape shape_of(const Line& line) {
  const std::vector<std::int64_t> extents = line.integers("shape", 0, std::int64_t{1} << 40);
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) {
    if (extent > 0 && elements > max_number / extent) line.refuse("member 'shape': too many elements");
    elements *= extent;
  }
  switch (extents.size()) {
    case 0:
      return {};
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    case 4:
      return {extents[0], extents[1], extents[2], extents[3]};
    default:
      line.refuse(fmt::format("member 'shape': expected up to {} extents", Shape::max_rank));
  }
}

/// The number of sampled elements of a shape.
std::size_t sampled_count(const Shape& shape) {
  return static_cast<std::size_t>(std::min(TensorSummary::max_elements, shape.elements()));
}

DType dtype_from(const Line& line) {
  const std::string name = line.text("dtype");
  for (const DType type : {DType::f32, DType::bf16, DType::i32}) {
    if (name == name_of(type)) return type;
  }
  line.refuse(fmt::format("member 'dtype': expected f32, bf16 or i32, found '{}'", name));
}

ProbeRole role_from(const Line& line) {
  const std::string name = line.text("role");
  for (const ProbeRole role : all_roles) {
    if (name == name_of(role)) return role;
  }
  line.refuse(
      fmt::format("member 'role': expected output, grad_input, weight_grad, weight or other, found '{}'", name));
}

TensorSummary summary_of(const Line& line, const Shape& shape, DType type) {
  TensorSummary summary{.sha256 = line.text("sha256"),
                        .min = line.number("min"),
                        .max = line.number("max"),
                        .mean = line.number("mean"),
                        .rms = line.number("rms"),
                        .absmax = line.number("absmax"),
                        .zeros = line.integer("zeros", 0, max_number),
                        .non_finite = line.integer("non_finite", 0, max_number),
                        .bits = {}};
  if (summary.sha256.size() != 64) line.refuse("member 'sha256': expected 64 hexadecimal digits");
  const std::string hex = line.text("elements");
  const std::size_t digits = 2 * size_of(type), count = sampled_count(shape);
  if (hex.size() != count * digits) {
    line.refuse(fmt::format("member 'elements': expected {} hexadecimal digits, found {}", count * digits, hex.size()));
  }
  for (std::size_t at = 0; at < hex.size(); at += digits) {
    std::uint32_t bits = 0;
    const auto [end, error] = std::from_chars(hex.data() + at, hex.data() + at + digits, bits, 16);
    if (error != std::errc() || end != hex.data() + at + digits) {
      line.refuse(fmt::format("member 'elements': expected hexadecimal digits, found '{}'", hex.substr(at, digits)));
    }
    summary.bits.push_back(bits);
  }
  return summary;
}

/// Older probes have neither member.
void read_origin(const Line& line, const ProbeHeader& header, ProbeRecord& record) {
  const bool stored = line.has("left_out");
  const bool sums_ranks = header.ranks > 1 && (record.op == "gradient_sum" || record.op == "adam_update");
  record.left_out = stored ? line.flag("left_out") : header.layers != "all" || sums_ranks;
  record.batch = stored ? line.flag("batch") : record.micro_batch >= 0;
}

ProbeRecord record_of(const Line& line, const ProbeHeader& header, std::int64_t number) {
  ProbeRecord record{.number = line.integer("record", 0, max_number),
                     .update = line.integer("update", 0, max_number),
                     .micro_batch = static_cast<int>(line.integer("micro_batch", -1, 1 << 24)),
                     .phase = line.text("phase"),
                     .layer = line.text("layer"),
                     .op = line.text("op"),
                     .member = line.text("member"),
                     .occurrence = static_cast<int>(line.integer("occurrence", 0, 1 << 24)),
                     .role = role_from(line),
                     .shape = shape_of(line),
                     .dtype = dtype_from(line)};
  if (record.number != number) line.refuse(fmt::format("record {} where {} was expected", record.number, number));
  record.summary = summary_of(line, record.shape, record.dtype);
  record.inputs = line.integers("inputs", 0, number - 1);
  read_origin(line, header, record);
  return record;
}

LibraryVersions libraries_in(const json::object& environment) {
  LibraryVersions versions;
  visit_libraries(versions, [&](std::string_view, std::string_view name, std::string& version) {
    version = get_text(environment, name);
  });
  return versions;
}

}  // namespace

std::string_view name_of(ProbeRole role) {
  switch (role) {
    case ProbeRole::output:
      return "output";
    case ProbeRole::grad_input:
      return "grad_input";
    case ProbeRole::weight_grad:
      return "weight_grad";
    case ProbeRole::weight:
      return "weight";
    case ProbeRole::other:
      break;
  }
  return "other";
}

std::string ProbeRecord::key() const {
  return fmt::format("{}/{}/{}/{}/{}/{}/{}", update, micro_batch, phase, layer, op, member, occurrence);
}

json::object to_json(const ProbeHeader& header) {
  return {{"format", format_name},
          {"version", ProbeHeader::current_version},
          {"program", header.program},
          {"mode", header.mode},
          {"first_update", header.first_update},
          {"updates", header.updates},
          {"rank", header.rank},
          {"ranks", header.ranks},
          {"model", header.model},
          {"configuration", header.configuration},
          {"corpus", header.corpus},
          {"weights", header.weights},
          {"precision", header.precision},
          {"device", header.device},
          {"threads", header.threads},
          {"layers", header.layers},
          {"tensors", header.tensors},
          {"environment", header.environment}};
}

json::object to_json(const ProbeRecord& record) {
  json::array shape;
  for (int axis = 0; axis < record.shape.rank(); ++axis) shape.push_back(record.shape[axis]);
  const TensorSummary& summary = record.summary;
  return {{"record", record.number},
          {"update", record.update},
          {"micro_batch", record.micro_batch},
          {"phase", record.phase},
          {"layer", record.layer},
          {"op", record.op},
          {"member", record.member},
          {"occurrence", record.occurrence},
          {"role", name_of(record.role)},
          {"shape", std::move(shape)},
          {"dtype", name_of(record.dtype)},
          {"sha256", summary.sha256},
          {"min", summary.min},
          {"max", summary.max},
          {"mean", summary.mean},
          {"absmax", summary.absmax},
          {"rms", summary.rms},
          {"zeros", summary.zeros},
          {"non_finite", summary.non_finite},
          {"elements", hex_of(summary.bits, record.dtype)},
          {"inputs", json::array(record.inputs.begin(), record.inputs.end())},
          {"left_out", record.left_out},
          {"batch", record.batch}};
}

Probe parse_probe(std::string_view text, const std::string& name) {
  if (text.empty()) fail("{}: empty file; expected a probe", name);
  if (text.back() != '\n') fail("{}: torn: the last line has no end", name);
  Probe probe;
  probe.file = name;
  std::size_t number = 0;
  bool complete = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const Line line(text.substr(0, end), name, ++number);
    text.remove_prefix(end + 1);
    if (complete) line.refuse("a line behind the end of the probe");
    if (number == 1) {
      probe.header = header_of(line);
    } else if (line.has("end")) {
      const auto records = static_cast<std::int64_t>(probe.records.size());
      if (line.integer("records", 0, max_number) != records) {
        line.refuse(fmt::format("expected {} records before this line, as member 'records' says; found {}",
                                line.integer("records", 0, max_number), records));
      }
      probe.batch = line.text("batch");
      complete = true;
    } else {
      probe.records.push_back(record_of(line, probe.header, static_cast<std::int64_t>(probe.records.size())));
    }
  }
  if (!complete) fail("{}: torn: no line with the member 'end' behind {} records", name, probe.records.size());
  return probe;
}

Probe read_probe(const std::filesystem::path& file) {
  if (const std::string missing = existing_file(file.string()); !missing.empty()) {
    fail("{}, expected a probe, as `nmt probe save` or a run with lab.probe.at writes it", missing);
  }
  return parse_probe(read_file(file), file.string());
}

std::filesystem::path tensors_file(const std::filesystem::path& probe) {
  return std::filesystem::path(probe).replace_extension(".safetensors");
}

std::string tensor_name(const ProbeRecord& record) {
  return fmt::format("{:06}/{}", record.number, record.key());
}

std::string header_difference(const std::string& name, const std::string& a, const std::string& b) {
  return fmt::format("{}: {} and {}", name, a.empty() ? "none" : a, b.empty() ? "none" : b);
}

EnvironmentDifferences compare_environments(const json::object& a, const json::object& b) {
  EnvironmentDifferences found{.libraries = library_differences(libraries_in(a), libraries_in(b)), .others = {}};
  std::set<std::string> names;
  for (const json::object* object : {&a, &b}) {
    for (const auto& member : *object) names.emplace(member.key());
  }
  for (const std::string& name : names) {
    const std::string first = get_text(a, name), second = get_text(b, name);
    const bool told = std::ranges::any_of(
        found.libraries, [&name](const std::string& line) { return line.starts_with(name + " differs: "); });
    if (first != second && !told) found.others.push_back(header_difference(name, first, second));
  }
  return found;
}

}  // namespace babelring
