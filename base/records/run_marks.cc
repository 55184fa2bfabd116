#include "base/records/run_marks.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"

namespace babelring {
namespace {

constexpr const char* fence_name = "fenced";
constexpr const char* run_name = "run.json";

}  // namespace

void write_fence(const std::filesystem::path& folder, std::int64_t attempt) {
  const std::int64_t before = fenced_attempt(folder);
  if (before >= attempt) return;
  write_file_atomically(folder / fence_name, std::to_string(attempt) + "\n");
}

std::int64_t fenced_attempt(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / fence_name;
  if (!std::filesystem::exists(file)) return 0;
  const std::string text = read_file(file);
  std::int64_t attempt = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  if (error != std::errc() || attempt < 0) fail("{}: expected an attempt number", file.string());
  return attempt;
}

std::optional<RunFile> read_run_file(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / run_name;
  std::error_code unreachable;  // then reading it says why
  if (std::filesystem::status(file, unreachable).type() == std::filesystem::file_type::not_found) return std::nullopt;
  const Result<json::value> stored = parse_json(read_file(file));
  const json::object* object = stored.ok() ? stored->if_object() : nullptr;
  const json::value* attempt = object != nullptr ? object->if_contains("attempt") : nullptr;
  if (attempt == nullptr || !attempt->is_int64() || !valid_id(get_text(*object, "run"), 'r')) {
    fail("{}: expected {{\"run\": id, \"attempt\": number}}; move the folder away to start a new run", file.string());
  }
  const json::value* libraries = object->if_contains("libraries");
  return RunFile{.run = get_text(*object, "run"),
                 .attempt = attempt->get_int64(),
                 .host = get_text(*object, "host"),
                 .libraries = libraries != nullptr ? library_versions_from_json(*libraries) : LibraryVersions(),
                 .end = get_text(*object, "end"),
                 .detail = get_text(*object, "detail"),
                 .server = get_text(*object, "server")};
}

void write_run_file(const std::filesystem::path& folder, const RunFile& content) {
  if (read_run_file(folder) == content) return;
  json::object object{{"run", content.run},
                      {"attempt", content.attempt},
                      {"host", content.host},
                      {"libraries", to_json(content.libraries)}};
  if (!content.server.empty()) object["server"] = content.server;
  if (!content.end.empty()) {
    object["end"] = content.end;
    object["detail"] = content.detail;
  }
  write_file_atomically(folder / run_name, to_text(object) + "\n");
}

}  // namespace babelring
