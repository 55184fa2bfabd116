#include "worker/run_folder.h"

#include <algorithm>
#include <system_error>

#include "nmt/base/atomic_file.h"
#include "nmt/base/failure.h"
#include "nmt/base/json.h"
#include "nmt/base/records.h"
#include "nmt/base/run_fence.h"

namespace babelring {
namespace {

constexpr const char* file_name = "run.json";

void make_run_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("run folder {}: cannot be made: {}", folder.string(), error.message());
}

}  // namespace

void check_identity(const std::string& run, std::int64_t attempt) {
  if (!valid_id(run, 'r')) {
    throw UsageFailure(fmt::format("--run-id: expected r_ and 26 digits or capital letters, found '{}'", run));
  }
  if (attempt < 1) throw UsageFailure(fmt::format("--attempt: expected at least 1, found {}", attempt));
}

RunFolder::RunFolder(std::filesystem::path path) : path_(std::move(path)) {
  make_run_folder(path_);
  if (const auto before = stored()) {
    run_ = before->run;
    attempt_ = std::max(before->attempt, fenced_attempt(path_)) + 1;  // one may be given up before it began
  } else {
    run_ = make_id('r');
  }
  store();
}

RunFolder::RunFolder(std::filesystem::path path, const std::string& run, std::int64_t attempt)
    : path_(std::move(path)), run_(run), attempt_(attempt) {
  check_identity(run, attempt);
  make_run_folder(path_);
  const auto before = stored();
  if (before && before->run != run) fail("{}: holds run {}, expected {}", path_.string(), before->run, run);
  if (before && before->attempt >= attempt) {
    throw Fenced(fmt::format("{}: attempt {} has started already, so attempt {} cannot", path_.string(),
                             before->attempt, attempt));
  }
  if (fenced_attempt(path_) >= attempt) throw Fenced(fmt::format("{}: attempt {} is over", path_.string(), attempt));
  store();
}

std::optional<RunFolder::Stored> RunFolder::stored() const {
  const std::filesystem::path file = path_ / file_name;
  if (!std::filesystem::exists(file)) return std::nullopt;
  const Result<json::value> stored = parse_json(read_file(file));
  const json::object* object = stored.ok() ? stored->if_object() : nullptr;
  const json::value* run = object != nullptr ? object->if_contains("run") : nullptr;
  const json::value* attempt = object != nullptr ? object->if_contains("attempt") : nullptr;
  if (run == nullptr || attempt == nullptr || !run->is_string() || !attempt->is_int64() ||
      !valid_id(run->get_string(), 'r')) {
    fail("{}: expected {{\"run\": id, \"attempt\": number}}; remove the file to start a new run there", file.string());
  }
  return Stored{std::string(run->get_string()), attempt->get_int64()};
}

void RunFolder::store() const {
  json::object object;
  object["run"] = run_;
  object["attempt"] = attempt_;
  write_file_atomically(path_ / file_name, to_text(object) + "\n");
}

void RunFolder::require_current() const {
  if (fenced_attempt(path_) >= attempt_) throw Fenced(fmt::format("attempt {} is over", attempt_));
  const auto newest = stored();
  if (newest && newest->attempt > attempt_) {
    throw Fenced(fmt::format("attempt {} is over: attempt {} has started", attempt_, newest->attempt));
  }
}

}  // namespace babelring
