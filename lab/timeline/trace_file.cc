#include "lab/timeline/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "base/result.h"
#include "lab/timeline/merged_trace.h"
#include "nmt/data/line_reader.h"

namespace babelring {

std::string json_string(std::string_view text) {
  return to_text(json::value(json::string(text)));
}

void TraceText::metadata(std::string_view what, int thread, std::string_view member, std::string_view json) {
  fmt::format_to(std::back_inserter(text_), R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"{}":{}}}}},)", what,
                 process_, thread, member, json);
  text_ += '\n';
}

void TraceText::name_process(std::string_view name) {
  metadata("process_name", 0, "name", json_string(name));
  metadata("process_sort_index", 0, "sort_index", std::to_string(process_));
}

void TraceText::name_thread(int thread, std::string_view name) {
  metadata("thread_name", thread, "name", json_string(name));
  metadata("thread_sort_index", thread, "sort_index", std::to_string(thread));
}

void TraceText::add(const TraceSlice& slice) {
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":{},"cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{{}}}}},)",
                 json_string(slice.name), slice.category, slice.begin_us, std::max(0.0, slice.end_us - slice.begin_us),
                 process_, slice.thread, slice.arguments);
  text_ += '\n';
}

void TraceText::count(std::string_view name, double us, std::span<const std::pair<std::string, double>> series) {
  std::string values;
  for (const auto& [key, value] : series) {
    values += fmt::format("{}{}:{}", values.empty() ? "" : ",", json_string(key), to_text(json::value(value)));
  }
  fmt::format_to(std::back_inserter(text_), R"({{"name":{},"ph":"C","ts":{:.3f},"pid":{},"tid":0,"args":{{{}}}}},)",
                 json_string(name), us, process_, values);
  text_ += '\n';
}

void TraceText::begin_arrow(std::string_view id, int thread, double us) {
  arrow(R"("s")", id, thread, us);
}

void TraceText::end_arrow(std::string_view id, int thread, double us) {
  arrow(R"("f","bp":"e")", id, thread, us);
}

void TraceText::arrow(std::string_view phase, std::string_view id, int thread, double us) {
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":"bucket","cat":"bucket","ph":{},"id":{},"ts":{:.3f},"pid":{},"tid":{}}},)", phase,
                 json_string(id), us, process_, thread);
  text_ += '\n';
}

namespace {

std::string unpacked(const std::filesystem::path& file) {
  ByteSource source(file);
  std::string text;
  std::array<char, 1 << 16> block{};
  while (true) {
    const Result<std::size_t> bytes = source.read(block);
    if (!bytes) fail("{}: {}", file.string(), bytes.error());
    if (*bytes == 0) return text;
    text.append(block.data(), *bytes);
  }
}

void read_event(const json::value& value, std::vector<TraceEvent>& events) {
  if (!value.is_object() || get_text(value.get_object(), "ph") != "X") return;
  const json::object& object = value.get_object();
  const double begin = get_number(object, "ts").value_or(0);
  const json::object* arguments = get_object(object, "args");
  events.push_back({.rank = static_cast<int>(get_integer(object, "pid")),
                    .thread = static_cast<int>(get_integer(object, "tid")),
                    .name = get_text(object, "name"),
                    .category = get_text(object, "cat"),
                    .begin_us = begin,
                    .end_us = begin + get_number(object, "dur").value_or(0),
                    .arguments = arguments != nullptr ? *arguments : json::object()});
}

void read_ranks(const json::object& head, TraceFile& trace) {
  const json::value* ranks = head.if_contains("ranks");
  if (ranks == nullptr || !ranks->is_array()) return;
  for (const json::value& one : ranks->get_array()) {
    if (!one.is_object()) continue;
    const json::object& rank = one.get_object();
    trace.ranks.push_back({.rank = static_cast<int>(get_integer(rank, "rank")),
                           .host = get_text(rank, "host"),
                           .device = get_flag(rank, "device"),
                           .clock_error_us = get_number(rank, "clock_error_us").value_or(0)});
  }
}

}  // namespace

TraceFile read_trace(const std::filesystem::path& file) {
  const Result<json::value> parsed = parse_json(unpacked(file));
  if (!parsed) fail("{}: {}; expected a timeline, trace-update-N.json.gz", file.string(), parsed.error());
  const json::object none;
  const json::object& root = parsed->is_object() ? parsed->get_object() : none;
  const json::object* head = get_object(root, "otherData");
  const json::value* events = root.if_contains("traceEvents");
  const std::string format = head != nullptr ? get_text(*head, "format") : "";
  if (format != trace_format || events == nullptr || !events->is_array()) {
    fail("{}: format is '{}', expected {}, a file that `nmt` wrote for lab.trace", file.string(), format, trace_format);
  }
  TraceFile trace{.run = get_text(*head, "run"),
                  .first_update = get_integer(*head, "first_update"),
                  .updates = get_integer(*head, "updates")};
  read_ranks(*head, trace);
  if (trace.ranks.empty()) fail("{}: it lists no ranks, expected at least one", file.string());
  for (const json::value& event : events->get_array()) read_event(event, trace.events);
  return trace;
}

std::filesystem::path newest_trace(const std::filesystem::path& run) {
  std::filesystem::path newest;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run / "lab", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("trace-update-") && name.ends_with(".json.gz") && name > newest.filename().string()) {
      newest = entry.path();
    }
  }
  if (newest.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no lab/trace-update-*.json.gz, expected one: train with "
                    "lab.trace.updates=1",
                    run.string()));
  }
  return newest;
}

}  // namespace babelring
