#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/log.h"
#include "base/names.h"
#include "base/records/fields.h"
#include "base/text.h"

namespace babelring {
namespace {

/// Header members that a batch states once for all records.
template <class Header, class Visitor>
void visit_origin(Header& header, Visitor&& field) {
  field.required("attempt", header.attempt);
  field.required("rank", header.rank);
  field("host", header.host);
}

/// A default-constructed body of the named kind.
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

/// Reads a record except for the members that a batch states once. Returns the first error, or "".
std::string read_item(Record& record, FieldReader& field, const std::string& place) {
  std::string kind;
  field.required("kind", kind);
  field.required("sequence", record.header.sequence);
  field.required("time_ms", record.header.time_ms);
  if (!field.error().empty()) return field.error();
  if (!make_body(kind, record.body)) {
    return fmt::format("{}kind: expected step, eval, checkpoint, log, lifecycle or artifact, found '{}'", place,
                       printable(kind));
  }
  std::visit([&](auto& body) { visit_fields(body, field); }, record.body);
  if (std::string error = field.finish(); !error.empty()) return error;
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

std::string difference_to_best(const EvalRecord& eval) {
  const std::string than = eval.best_before > 0 ? "update " + grouped(static_cast<double>(eval.best_before))
                                                : std::string("the best before");
  return difference_text(eval.above_best, "BLEU", than);
}

json::object to_json(const Record& record) {
  json::object object;
  FieldWriter field(object);
  field("run", record.header.run);
  visit_origin(record.header, field);
  write_item(record, field);
  return object;
}

Result<Record> record_from_json(const json::object& object, UnknownMembers* unknown) {
  Record record;
  FieldReader field(object, "", unknown);
  field.required("run", record.header.run);
  visit_origin(record.header, field);
  std::string error = read_item(record, field, "");
  if (error.empty()) error = check_origin(record.header);
  if (!error.empty()) return Error{"record: " + error};
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

Result<std::vector<Record>> batch_from_json(std::string_view run, const json::value& batch, UnknownMembers* unknown) {
  if (!batch.is_object()) return Error{"batch: expected an object, found " + found_json(batch)};
  const json::object& outer = batch.get_object();
  const json::value* items = outer.if_contains("records");
  if (items == nullptr || !items->is_array()) {
    return Error{"batch: records: expected an array of objects" +
                 (items ? ", found " + found_json(*items) : std::string(", but absent"))};
  }
  const json::array& records_in = items->get_array();
  RecordHeader header;
  header.run = std::string(run);
  FieldReader field(outer, "", unknown);
  visit_origin(header, field);
  field.leave("confirmed");  // for the server: the newest sequence that it has confirmed to the sender
  field.leave("records");
  std::string error = field.finish();
  if (error.empty()) error = check_origin(header);
  std::vector<Record> records;
  records.reserve(records_in.size());
  for (std::size_t i = 0; i < records_in.size() && error.empty(); ++i) {
    const std::string place = fmt::format("records[{}].", i);
    if (!records_in[i].is_object()) {
      return Error{fmt::format("batch: records[{}]: expected an object, found {}", i, found_json(records_in[i]))};
    }
    FieldReader item(records_in[i].get_object(), place, unknown);
    error = read_item(records.emplace_back(Record{.header = header, .body = {}}), item, place);
  }
  if (!error.empty()) return Error{"batch: " + error};
  return records;
}

}  // namespace babelring
