#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>

#include "nmt/base/log.h"
#include "nmt/base/nearest.h"
#include "nmt/base/record_fields.h"

namespace babelring {
namespace {

std::string_view non_finite_name(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// Adds members to an object.
class FieldWriter {
 public:
  explicit FieldWriter(json::object& out) : out_(out) {}

  template <class T>
  void required(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  void operator()(std::string_view name, double value) {
    if (std::isfinite(value)) {
      out_.emplace(name, value);
    } else {
      out_.emplace(name, nullptr);
      non_finite_.emplace(name, non_finite_name(value));
    }
  }
  void operator()(std::string_view name, std::int64_t value) { out_.emplace(name, value); }
  void operator()(std::string_view name, bool value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const std::string& value) { out_.emplace(name, value); }
  void operator()(std::string_view name, const std::map<std::string, std::int64_t>& values) {
    json::object object;
    for (const auto& [key, value] : values) object.emplace(key, value);
    out_.emplace(name, std::move(object));
  }
  template <class T>
  void operator()(std::string_view name, const std::vector<T>& values) {
    json::array array;
    for (const T& value : values) {
      json::object object;
      FieldWriter writer(object);
      visit_fields(value, writer);
      array.push_back(std::move(object));
    }
    out_.emplace(name, std::move(array));
  }
  /// After the last member.
  void finish() {
    if (!non_finite_.empty()) out_.emplace("non_finite", std::move(non_finite_));
  }

 private:
  json::object& out_;
  json::object non_finite_;
};

/// What stands in JSON, short enough for a message.
std::string found(const json::value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  const std::string text = printable(to_text(value));
  return text.size() <= 60 ? text : text.substr(0, 60) + "…";
}

/// Reads members from an object. The first complaint is kept; what follows it is not read.
class FieldReader {
 public:
  FieldReader(const json::object& in, std::string place) : in_(in), place_(std::move(place)) {
    const json::value* names = in_.if_contains("non_finite");
    if (names == nullptr) return;
    known_.emplace_back("non_finite");
    if (names->is_object()) {
      non_finite_ = &names->get_object();
    } else {
      complain("non_finite", "an object", *names);
    }
  }

  template <class T>
  void required(std::string_view name, T& value) {
    if (in_.contains(name)) {
      (*this)(name, value);
    } else if (error_.empty()) {
      error_ = fmt::format("{}{}: expected, but absent", place_, name);
    }
  }
  template <class T>
  void operator()(std::string_view name, T& value) {
    known_.emplace_back(name);
    const json::value* member = in_.if_contains(name);
    if (member != nullptr && error_.empty()) read(name, *member, value);
  }

  /// The first complaint so far, or "".
  const std::string& error() const { return error_; }

  /// After the last member: refuses unknown ones. Returns the first complaint, or "".
  const std::string& finish() {
    for (const auto& member : in_) {
      if (!error_.empty()) break;
      const std::string name(member.key());
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        error_ = fmt::format("{}{}: unknown member{}", place_, printable(name), did_you_mean(name, known_));
      }
    }
    if (non_finite_ != nullptr && error_.empty() && non_finite_used_ != non_finite_->size()) {
      error_ = fmt::format("{}non_finite: names a member that is not a null number", place_);
    }
    return error_;
  }

 private:
  void complain(std::string_view name, std::string_view wanted, const json::value& value) {
    if (error_.empty()) error_ = fmt::format("{}{}: expected {}, found {}", place_, name, wanted, found(value));
  }

  void read(std::string_view name, const json::value& in, double& out) {
    if (in.is_number()) {
      out = in.to_number<double>();
      return;
    }
    const json::value* word = in.is_null() && non_finite_ != nullptr ? non_finite_->if_contains(name) : nullptr;
    if (word == nullptr) return complain(name, "a number (or null and an entry in non_finite)", in);
    ++non_finite_used_;
    if (*word == "nan") {
      out = std::numeric_limits<double>::quiet_NaN();
    } else if (*word == "inf") {
      out = std::numeric_limits<double>::infinity();
    } else if (*word == "-inf") {
      out = -std::numeric_limits<double>::infinity();
    } else {
      complain(fmt::format("non_finite.{}", name), "\"nan\", \"inf\" or \"-inf\"", *word);
    }
  }
  void read(std::string_view name, const json::value& in, std::int64_t& out) {
    if (!in.is_int64()) return complain(name, "an integer", in);
    out = in.get_int64();
  }
  void read(std::string_view name, const json::value& in, bool& out) {
    if (!in.is_bool()) return complain(name, "true or false", in);
    out = in.get_bool();
  }
  void read(std::string_view name, const json::value& in, std::string& out) {
    if (!in.is_string()) return complain(name, "text", in);
    out = std::string(std::string_view(in.get_string()));
  }
  void read(std::string_view name, const json::value& in, std::map<std::string, std::int64_t>& out) {
    if (!in.is_object()) return complain(name, "an object of integers", in);
    for (const auto& member : in.get_object()) {
      read(fmt::format("{}.{}", name, printable(member.key())), member.value(), out[std::string(member.key())]);
    }
  }
  template <class T>
  void read(std::string_view name, const json::value& in, std::vector<T>& out) {
    if (!in.is_array()) return complain(name, "an array of objects", in);
    for (std::size_t i = 0; i < in.get_array().size() && error_.empty(); ++i) {
      const json::value& element = in.get_array()[i];
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!element.is_object()) return complain(place, "an object", element);
      FieldReader reader(element.get_object(), place_ + place + ".");
      visit_fields(out.emplace_back(), reader);
      error_ = reader.finish();
    }
  }

  const json::object& in_;
  std::string place_;
  std::string error_;
  std::vector<std::string> known_;
  const json::object* non_finite_ = nullptr;
  std::size_t non_finite_used_ = 0;
};

/// Members that a batch states once for all its records.
template <class Header, class Visitor>
void visit_origin(Header& header, Visitor&& field) {
  field.required("attempt", header.attempt);
  field.required("rank", header.rank);
  field("host", header.host);
}

/// An empty body of the kind, by name.
template <std::size_t index = 0>
bool make_body(std::string_view kind, RecordBody& body) {
  if constexpr (index == std::variant_size_v<RecordBody>) {
    return false;
  } else {
    body.emplace<index>();
    return kind_of(body) == kind || make_body<index + 1>(kind, body);
  }
}

void write_item(const Record& record, FieldWriter& field) {
  field("sequence", record.header.sequence);
  field("kind", std::string(kind_of(record.body)));
  field("time_ms", record.header.time_ms);
  std::visit([&](const auto& body) { visit_fields(body, field); }, record.body);
  field.finish();
}

/// The complaint, or "".
std::string read_item(Record& record, FieldReader& field, const std::string& place) {
  std::string kind;
  field.required("kind", kind);
  field.required("sequence", record.header.sequence);
  field.required("time_ms", record.header.time_ms);
  if (!field.error().empty()) return field.error();
  if (!make_body(kind, record.body)) {
    return fmt::format("{}kind: expected step, eval, checkpoint, log or lifecycle, found '{}'", place, printable(kind));
  }
  std::visit([&](auto& body) { visit_fields(body, field); }, record.body);
  if (std::string complaint = field.finish(); !complaint.empty()) return complaint;
  const RecordHeader& header = record.header;
  if (header.sequence < 1) return fmt::format("{}sequence: expected at least 1, found {}", place, header.sequence);
  if (header.time_ms < 0) return fmt::format("{}time_ms: expected at least 0, found {}", place, header.time_ms);
  return "";
}

std::string check_origin(const RecordHeader& header) {
  if (!valid_id(header.run, 'r')) {
    return fmt::format("run: expected r_ and 26 base-32 digits, found '{}'", printable(header.run));
  }
  if (header.attempt < 1) return fmt::format("attempt: expected at least 1, found {}", header.attempt);
  if (header.rank < 0) return fmt::format("rank: expected at least 0, found {}", header.rank);
  return "";
}

}  // namespace

json::object to_json(const Record& record) {
  json::object object;
  FieldWriter field(object);
  field("run", record.header.run);
  visit_origin(record.header, field);
  write_item(record, field);
  return object;
}

Result<Record> record_from_json(const json::object& object) {
  Record record;
  FieldReader field(object, "");
  field.required("run", record.header.run);
  visit_origin(record.header, field);
  std::string complaint = read_item(record, field, "");
  if (complaint.empty()) complaint = check_origin(record.header);
  if (!complaint.empty()) return Error{"record: " + complaint};
  return record;
}

json::object batch_to_json(std::int64_t attempt, std::int64_t rank, std::string_view host,
                           std::span<const Record> records) {
  json::object batch;
  const RecordHeader header{.run = "", .attempt = attempt, .rank = rank, .host = std::string(host)};
  FieldWriter field(batch);
  visit_origin(header, field);
  json::array items;
  items.reserve(records.size());
  for (const Record& record : records) {
    json::object item;
    FieldWriter item_field(item);
    write_item(record, item_field);
    items.push_back(std::move(item));
  }
  batch.emplace("records", std::move(items));
  return batch;
}

Result<std::vector<Record>> batch_from_json(std::string_view run, const json::value& batch) {
  if (!batch.is_object()) return Error{"batch: expected an object, found " + found(batch)};
  json::object outer = batch.get_object();
  const json::value* items = outer.if_contains("records");
  if (items == nullptr || !items->is_array()) {
    return Error{"batch: records: expected an array of objects" +
                 (items ? ", found " + found(*items) : std::string(", but absent"))};
  }
  const json::array records_in = items->get_array();
  outer.erase("records");
  RecordHeader header;
  header.run = std::string(run);
  FieldReader field(outer, "");
  visit_origin(header, field);
  std::string complaint = field.finish();
  if (complaint.empty()) complaint = check_origin(header);
  std::vector<Record> records;
  records.reserve(records_in.size());
  for (std::size_t i = 0; i < records_in.size() && complaint.empty(); ++i) {
    const std::string place = fmt::format("records[{}].", i);
    if (!records_in[i].is_object()) {
      return Error{fmt::format("batch: records[{}]: expected an object, found {}", i, found(records_in[i]))};
    }
    FieldReader item(records_in[i].get_object(), place);
    complaint = read_item(records.emplace_back(Record{.header = header, .body = {}}), item, place);
  }
  if (!complaint.empty()) return Error{"batch: " + complaint};
  return records;
}

}  // namespace babelring
