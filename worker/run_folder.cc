#include "worker/run_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/result.h"
#include "nmt/comm/rank_results.h"
#include "worker/host_folders.h"

namespace babelring {
namespace {

constexpr const char* lock_file_name = "run.lock";

std::string lock_error() {
  return std::generic_category().message(errno);
}

std::string own_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

int open_lock_file(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    fail("run folder {}: cannot open {}: {}", file.parent_path().string(), lock_file_name, lock_error());
  return descriptor;
}

bool same_file(int descriptor, const std::filesystem::path& file) {
  struct stat open{}, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

LockHolder read_lock_holder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / lock_file_name, error)) return {};
  const Result<json::value> value = parse_json(read_file(folder / lock_file_name));
  const json::object* object = value.ok() ? value->if_object() : nullptr;
  const json::value* pid = object != nullptr ? object->if_contains("pid") : nullptr;
  const json::value* host = object != nullptr ? object->if_contains("host") : nullptr;
  if (pid == nullptr || host == nullptr || !pid->is_int64() || !host->is_string()) return {};
  return {.pid = pid->get_int64(), .host = std::string(host->get_string())};
}

FolderLock::FolderLock(const std::filesystem::path& folder, const Options& options) : file_(folder / lock_file_name) {
  for (const Stopwatch watch; !try_lock();) {
    if (watch.elapsed_ms() < static_cast<double>(options.patience.count())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    const LockHolder holder = read_lock_holder(folder);
    const std::string who =
        holder.host.empty() ? "another process" : fmt::format("process {} on {}", holder.pid, holder.host);
    if (!options.take_over) {
      throw UsageFailure(
          fmt::format("run folder {}: {} trains there: stop it first, or start with --take-over, which stops it at its "
                      "next checkpoint",
                      folder.string(), who));
    }
    spdlog::warn("run folder {}: taken over from {}, which stops at its next checkpoint", folder.string(), who);
    replace();
    return;
  }
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// Returns false if another process holds the lock.
bool FolderLock::try_lock() {
  const int descriptor = open_lock_file(file_);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(descriptor);
    if (error == EWOULDBLOCK || error == EINTR) return false;
    spdlog::warn("run folder {}: cannot be locked ({}), so a second worker there will not be detected",
                 file_.parent_path().string(), std::generic_category().message(error));
    return true;
  }
  if (!same_file(descriptor, file_)) {  // replaced between the two calls
    ::close(descriptor);
    return false;
  }
  descriptor_ = descriptor;
  write_holder();
  return true;
}

/// Renames a new, locked file over the lock file. The old holder keeps a lock on a file without a name.
void FolderLock::replace() {
  const std::filesystem::path temporary = fmt::format("{}.{}.{}", file_.string(), own_host(), getpid());
  descriptor_ = open_lock_file(temporary);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) fail("cannot lock {}: {}", temporary.string(), lock_error());
  write_holder();
  std::filesystem::rename(temporary, file_);
}

void FolderLock::write_holder() const {
  const std::string text = to_text(json::object{{"pid", getpid()}, {"host", own_host()}}) + "\n";
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) {
    spdlog::warn("{}: cannot write the lock holder: {}", file_.string(), lock_error());
  }
}

bool FolderLock::held() const {
  std::error_code error;
  return descriptor_ < 0 || !std::filesystem::exists(file_, error) || same_file(descriptor_, file_);
}

namespace {

std::filesystem::path create_run_folder(std::filesystem::path folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("run folder {}: cannot create it: {}", folder.string(), error.message());
  return folder;
}

/// Locks the run's folder on rank 0 and checks that the folders of all hosts are consistent. Sets `opened` on rank 0
/// and returns the number of the newest attempt in these folders. If the folder is in use or the hosts are
/// inconsistent, all ranks throw the same UsageFailure.
std::int64_t lock_folders(const JobOptions& options, const std::filesystem::path& folder, Communicator& communicator,
                          std::optional<RunFolder>& opened) {
  const bool by_server = !options.run.empty();
  const FolderLock::Options lock{.take_over = options.take_over || by_server,  // a server has fenced the older attempt
                                 .patience = std::chrono::seconds(options.take_over ? 0 : 5)};
  run_on_every_rank(communicator, [&] {
    if (communicator.rank() != 0) return;
    opened.emplace(folder,
                   RunFolder::Options{
                       .run = options.run, .attempt = options.attempt, .lock = lock, .server = options.server.address});
  });
  std::vector<HostFolder> folders;
  std::int64_t newest_attempt = 0;
  const HostFolder own = on_every_rank(
      communicator, [&] { return communicator.local_rank() == 0 ? inspect_run_folder(folder) : HostFolder(); });
  for (const Result<json::value>& theirs : gather_results(communicator, to_json(own))) {
    folders.push_back(host_folder_from_json(*theirs));
    newest_attempt = std::max(newest_attempt, folders.back().attempt);
  }
  const Status consistent =
      check_host_folders(folder, folders, communicator.hosts(), options.run, !options.resume_from.empty());
  if (!consistent) throw UsageFailure(consistent.error());
  return newest_attempt;
}

}  // namespace

void check_identity(const std::string& run, std::int64_t attempt) {
  if (!valid_id(run, 'r')) {
    throw UsageFailure(fmt::format("--run-id: expected r_ and 26 digits or capital letters, found '{}'", run));
  }
  if (attempt < 1) throw UsageFailure(fmt::format("--attempt: expected at least 1, found {}", attempt));
}

RunFolder::RunFolder(std::filesystem::path path, Options options)
    : path_(create_run_folder(std::move(path))), options_(std::move(options)), lock_(path_, options_.lock) {
  if (!options_.run.empty()) check_identity(options_.run, options_.attempt);
}

void RunFolder::open(std::int64_t earlier_attempts, const std::string& host, const LibraryVersions& libraries) {
  const auto before = read_run_file(path_);
  if (options_.run.empty()) {
    run_ = before ? before->run : make_id('r');
    // An attempt may be fenced before it began.
    attempt_ = std::max({before ? before->attempt : 0, fenced_attempt(path_), earlier_attempts}) + 1;
  } else {
    check_given(before);
    run_ = options_.run;
    attempt_ = options_.attempt;
  }
  write_run_file(path_,
                 {.run = run_, .attempt = attempt_, .host = host, .libraries = libraries, .server = options_.server});
  if (!lock_.held()) throw Fenced(fmt::format("{}: another worker has taken over this folder", path_.string()));
}

void RunFolder::check_given(const std::optional<RunFile>& before) const {
  const std::int64_t attempt = options_.attempt;
  if (before && before->run != options_.run) {
    fail("{}: found run {}, expected {}", path_.string(), before->run, options_.run);
  }
  if (before && before->attempt >= attempt) {
    throw Fenced(fmt::format("{}: attempt {} has already started, so attempt {} cannot start", path_.string(),
                             before->attempt, attempt));
  }
  if (fenced_attempt(path_) >= attempt) throw Fenced(fmt::format("{}: attempt {} is over", path_.string(), attempt));
}

void RunFolder::note_end(const std::string& end, const std::string& detail) const {
  try {
    auto file = read_run_file(path_);
    if (!file || file->attempt != attempt_) return;
    file->end = end;
    file->detail = detail;
    write_run_file(path_, *file);
  } catch (const Failure& failure) {
    spdlog::warn("the end of training is not in run.json: {}", failure.what());
  }
}

void RunFolder::require_current() const {
  if (fenced_attempt(path_) >= attempt_) throw Fenced(fmt::format("attempt {} is over", attempt_));
  const auto newest = read_run_file(path_);
  if (newest && newest->attempt > attempt_) {
    throw Fenced(fmt::format("attempt {} is over: attempt {} has started", attempt_, newest->attempt));
  }
  if (!lock_.held())
    throw Fenced(fmt::format("attempt {} is over: another worker has taken over its folder", attempt_));
}

RankIdentity begin_attempt(const JobOptions& options, const std::filesystem::path& folder,
                           const LibraryVersions& libraries, Communicator& communicator,
                           std::optional<RunFolder>& opened) {
  const std::int64_t earlier_attempts = lock_folders(options, folder, communicator, opened);
  run_on_every_rank(communicator, [&] {
    if (communicator.rank() != 0) return;
    std::filesystem::create_directories(folder / "checkpoints");
    opened->open(earlier_attempts, communicator.hosts()[0], libraries);
  });
  const json::value shared = value_of_rank_0(communicator, [&]() -> json::value {
    return {{"run", opened->run()}, {"attempt", opened->attempt()}, {"libraries", to_json(libraries)}};
  });
  RankIdentity identity{.run = std::string(shared.at("run").as_string()),
                        .attempt = shared.at("attempt").as_int64(),
                        .rank = communicator.rank(),
                        .host = communicator.hosts()[static_cast<std::size_t>(communicator.rank())]};
  run_on_every_rank(communicator, [&] {
    if (communicator.local_rank() != 0) return;
    create_run_folder(folder);
    write_run_file(folder, {.run = identity.run,
                            .attempt = identity.attempt,
                            .host = communicator.hosts()[0],
                            .libraries = library_versions_from_json(shared.at("libraries")),
                            .server = options.server.address});
  });
  return identity;
}

namespace {

/// The pairs dropped from the set, by reason. Nothing if the folder has no readable report.json.
std::optional<json::object> dropped_pairs(const std::filesystem::path& folder, const std::string& set) {
  if (!std::filesystem::exists(folder / "report.json")) return std::nullopt;
  const Result<json::value> report = parse_json(read_file(folder / "report.json"));
  const json::value* sets = report && report->is_object() ? report->get_object().if_contains("sets") : nullptr;
  if (sets == nullptr || !sets->is_array()) return std::nullopt;
  for (const json::value& each : sets->get_array()) {
    if (!each.is_object() || get_text(each.get_object(), "set") != set) continue;
    const json::object* findings = get_object(each.get_object(), "findings");
    if (findings == nullptr) return std::nullopt;
    json::object dropped;
    for (const auto& [reason, finding] : *findings) {
      // A carriage return is removed, and the pair is kept.
      if (reason != "crlf" && finding.is_object()) dropped[reason] = get_integer(finding.get_object(), "count");
    }
    return dropped;
  }
  return std::nullopt;
}

}  // namespace

json::object training_set_facts(const Manifest& manifest, const std::string& set) {
  const ManifestSet& found = manifest.set(set);
  json::object facts = {{"bytes", found.target_ids.bytes + (found.source_ids ? found.source_ids->bytes : 0)},
                        {"pairs", found.sentences},
                        {"source_tokens", found.source_tokens},
                        {"target_tokens", found.target_tokens},
                        {"vocabulary", manifest.vocabulary_size},
                        {"digest", found.digest()}};
  if (auto dropped = dropped_pairs(manifest.folder, set)) facts["dropped"] = *std::move(dropped);
  return facts;
}

}  // namespace babelring
