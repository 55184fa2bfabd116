#include "lab/timeline/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"

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

}  // namespace babelring
