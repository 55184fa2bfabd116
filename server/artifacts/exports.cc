#include "server/artifacts/exports.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <system_error>

#include "base/clock.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/http/reply.h"
#include "server/translate/nmt_process.h"

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;
using translate::NmtProcess;

constexpr std::size_t max_failed = 1000;  // failed exports that are remembered
constexpr auto poll_interval = std::chrono::milliseconds(100);
constexpr std::string_view package_suffix = ".argosmodel";
constexpr std::string_view unfinished_prefix = ".tmp-";  // of `nmt export`

fs::path exports_folder(const store::Store& store) {
  return store.folder() / "exports";
}

/// The entries of a folder, sorted by name; none if it is not there.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_unfinished(const fs::path& entry) {
  return entry.filename().string().starts_with(unfinished_prefix);
}

/// Removes a file or folder with all in it. The rename makes it disappear at once. Logs failures.
void remove_entry(const fs::path& entry) {
  std::error_code error;
  fs::path doomed = entry.parent_path() / (std::string(unfinished_prefix) + entry.filename().string());
  fs::rename(entry, doomed, error);
  if (error) doomed = entry;
  fs::remove_all(doomed, error);
  if (error) spdlog::warn("export {}: cannot remove it: {}", entry.string(), error.message());
}

/// The files below a folder, or the file itself, named from `folder`.
std::vector<ManifestFile> files_below(const fs::path& folder, const fs::path& path) {
  std::vector<ManifestFile> files;
  std::error_code error;
  const auto add = [&](const fs::directory_entry& entry) {
    if (!fs::is_regular_file(entry.symlink_status(error))) return;
    const auto bytes = static_cast<std::int64_t>(entry.file_size(error));
    files.push_back({entry.path().lexically_relative(folder).generic_string(), bytes, {}});
  };
  add(fs::directory_entry(path, error));
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) add(*at);
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

std::int64_t changed_ms(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  const auto wall = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
}

/// The text without the names of program and command, with which the program begins its complaints.
std::string complaint_of(const NmtProcess& process) {
  std::string line = process.last_error_line();
  for (const std::string_view name : {"nmt: ", "export: "}) {
    if (line.starts_with(name)) line.erase(0, name.size());
  }
  return line;
}

bool is_quantization(std::string_view word) {
  return word == "float32" || word == "bfloat16" || word == "int8";
}

bool is_language(std::string_view code) {
  return (code.size() == 2 || code.size() == 3) &&
         std::all_of(code.begin(), code.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

std::string_view ExportFormat::only_quantization(std::string_view format) {
  if (format == "huggingface" || format == "marian") return "float32";
  return format == "bergamot" ? "int8" : "";
}

std::string ExportFormat::name() const {
  if (format == "argos") return fmt::format("argos-{}_{}-{}", from, into, quantization);
  return only_quantization(format).empty() ? fmt::format("{}-{}", format, quantization) : format;
}

std::optional<ExportFormat> ExportFormat::named(std::string_view name) {
  if (const std::string_view only = only_quantization(name); !only.empty()) {
    return ExportFormat{std::string(name), std::string(only), "", ""};
  }
  const std::size_t first = name.find('-'), last = name.rfind('-');
  if (first == std::string_view::npos) return std::nullopt;
  ExportFormat found{std::string(name.substr(0, first)), std::string(name.substr(last + 1)), "", ""};
  if (found.format == "argos" && first < last) {
    const std::string_view pair = name.substr(first + 1, last - first - 1);
    const std::size_t middle = std::min(pair.find('_'), pair.size());
    found.from = pair.substr(0, middle);
    found.into = pair.substr(std::min(middle + 1, pair.size()));
  }
  const bool is_argos = found.format == "argos" && is_language(found.from) && is_language(found.into);
  if (!is_quantization(found.quantization) || !(is_argos || found.format == "ctranslate2")) return std::nullopt;
  return found.name() == name ? std::optional(found) : std::nullopt;
}

Exports::Exports(const store::Store& store, ExportLimits limits)
    : folder_(exports_folder(store)), limits_(std::move(limits)) {
  for (const fs::path& checkpoint : entries_of(folder_)) {
    for (const fs::path& entry : entries_of(checkpoint)) {
      if (is_unfinished(entry)) remove_entry(entry);
    }
  }
  thread_ = std::thread([this] { serve(); });
}

Exports::~Exports() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

fs::path Exports::path_of(const store::CheckpointRow& checkpoint, const ExportFormat& format) const {
  const std::string_view suffix = format.format == "argos" ? package_suffix : "";
  return folder_ / checkpoint.id / fmt::format("{}-{}{}", checkpoint.name, format.name(), suffix);
}

void Exports::require_space(const store::CheckpointRow& checkpoint) const {
  // A checkpoint has the weights and two moments of each: no format takes more.
  const auto needed = static_cast<std::uintmax_t>(bytes_of(manifest_of(checkpoint)));
  const std::uintmax_t available = fs::space(folder_.parent_path()).available;
  if (available >= needed + limits_.spare_bytes) return;
  throw http::Problem(507, "disk_full",
                      fmt::format("an export may take {} bytes and must leave {} free; {} are free", needed,
                                  limits_.spare_bytes, available));
}

void Exports::require_place(const std::string& owner) const {
  if (ending_ || queue_.size() >= limits_.max_waiting) {
    throw http::Problem(503, "busy", fmt::format("{} exports are waiting already", queue_.size()));
  }
  const auto own =
      std::count_if(queue_.begin(), queue_.end(), [&](const Key& key) { return jobs_.at(key).owner == owner; });
  if (static_cast<std::size_t>(own) < limits_.max_waiting_an_owner) return;
  throw http::Problem(503, "busy", fmt::format("{} exports of this client are waiting already", own));
}

std::optional<Export> Exports::find(const store::CheckpointRow& checkpoint, const ExportFormat& format) const {
  const std::lock_guard lock(mutex_);
  return locate(checkpoint, format);
}

std::optional<Export> Exports::locate(const store::CheckpointRow& checkpoint, const ExportFormat& format) const {
  if (const auto job = jobs_.find({checkpoint.id, format.name()}); job != jobs_.end()) return job->second.made;
  const fs::path path = path_of(checkpoint, format);
  std::error_code error;
  // A worker reported the checkpoint's name, which must not lead elsewhere.
  if (checkpoint.name.find('/') != std::string::npos || !fs::exists(path, error)) return std::nullopt;
  const fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  return Export{.checkpoint = checkpoint.id,
                .format = format,
                .state = ExportState::complete,
                .detail = {},
                .since_ms = changed_ms(path),
                .folder = folder,
                .files = files_below(folder, path)};
}

Export Exports::begin(const store::CheckpointRow& checkpoint, const ExportFormat& format,
                      std::shared_ptr<const void> held, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  if (auto found = locate(checkpoint, format); found && found->state != ExportState::failed) return std::move(*found);
  if (limits_.program.empty()) {
    throw http::Problem(503, "no_exporter", "no `nmt` program found in the server program's folder; set --nmt");
  }
  require_space(checkpoint);
  require_place(owner);
  const Key key(checkpoint.id, format.name());
  if (jobs_.size() >= max_failed + limits_.max_waiting) {
    std::erase_if(jobs_, [](const auto& job) { return job.second.made.state == ExportState::failed; });
  }
  Job job{.made = {.checkpoint = checkpoint.id, .format = format, .since_ms = wall_time_ms()},
          .source = checkpoint.folder,
          .output = path_of(checkpoint, format),
          .held = std::move(held),
          .owner = owner};
  Export made = job.made;
  jobs_.insert_or_assign(key, std::move(job));
  queue_.push_back(key);
  changed_.notify_all();
  return made;
}

std::map<std::string, std::map<std::string, ExportFormat>> Exports::formats() const {
  std::map<std::string, std::map<std::string, ExportFormat>> formats;
  for (const fs::path& checkpoint : entries_of(folder_)) {
    for (const fs::path& entry : entries_of(checkpoint)) {
      std::string name = entry.filename();  // update-00001000-ctranslate2-int8
      if (is_unfinished(entry)) continue;
      if (name.ends_with(package_suffix)) name.resize(name.size() - package_suffix.size());
      for (std::size_t at = name.find('-'); at != std::string::npos; at = name.find('-', at + 1)) {
        const auto format = ExportFormat::named(std::string_view(name).substr(at + 1));
        if (format) formats[checkpoint.filename()].emplace(format->name(), *format);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [key, job] : jobs_) formats[key.first].emplace(key.second, job.made.format);
  return formats;
}

void Exports::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    const Key key = queue_.front();
    queue_.pop_front();
    Job& job = jobs_.at(key);  // stays where it is: only failed ones are replaced or erased
    job.made.state = ExportState::running;
    job.made.since_ms = wall_time_ms();
    lock.unlock();
    std::string failure;
    try {
      failure = make(job);
    } catch (const std::exception& error) {  // the process could not be started
      failure = error.what();
    }
    if (failure.empty()) remove_oldest();
    lock.lock();
    if (failure.empty()) {
      spdlog::info("checkpoint {}: exported as {}", key.first, key.second);
      jobs_.erase(key);
      continue;
    }
    spdlog::warn("checkpoint {}: not exported as {}: {}", key.first, key.second, failure);
    job.held.reset();
    job.made.state = ExportState::failed;
    job.made.detail = std::move(failure);
    job.made.since_ms = wall_time_ms();
  }
}

std::string Exports::make(const Job& job) {
  const ExportFormat& format = job.made.format;
  std::vector<std::string> arguments = {"export",
                                        "--end-with-parent",
                                        "--sources-optional",
                                        "--memory-mb",
                                        std::to_string(limits_.memory_mb),
                                        "--checkpoint",
                                        job.source.string(),
                                        "--to",
                                        format.format,
                                        "--output",
                                        job.output.filename().string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {option, value});
  };
  if (ExportFormat::only_quantization(format.format).empty()) add("--quantization", format.quantization);
  add("--from", format.from);
  add("--into", format.into);
  fs::create_directories(job.output.parent_path());
  // In that folder, so that the model card's command does not name it.
  NmtProcess process(fs::absolute(limits_.program), arguments, job.output.parent_path());
  const auto deadline = SteadyClock::now() + limits_.deadline;
  const auto stopped = [this] {
    const std::lock_guard lock(mutex_);
    return ending_;
  };
  // It prints a line or two, and has ended when its output does.
  while (process.receive(SteadyClock::now() + poll_interval).result != NmtProcess::LineStatus::ended) {
    if (stopped()) return "the server is shutting down";
    if (SteadyClock::now() >= deadline) {
      return fmt::format("it took over {} s and was ended", limits_.deadline.count() / 1000.0);
    }
  }
  while (process.running() && !stopped() && SteadyClock::now() < deadline)
    std::this_thread::sleep_for(poll_interval / 50);
  const int code = process.end();
  if (code == 0) return fs::exists(job.output) ? "" : "the program ended without a result";
  std::string words = complaint_of(process);
  if (!words.empty()) return words;
  return code > 128 ? fmt::format("the program ended by signal {}", code - 128)
                    : fmt::format("the program ended with exit code {}", code);
}

void Exports::remove_oldest() const {
  std::vector<std::pair<std::int64_t, fs::path>> kept;
  for (const fs::path& checkpoint : entries_of(folder_)) {
    for (const fs::path& entry : entries_of(checkpoint)) {
      if (!is_unfinished(entry)) kept.emplace_back(changed_ms(entry), entry);
    }
  }
  if (kept.size() <= limits_.max_kept) return;
  std::sort(kept.begin(), kept.end());
  kept.resize(kept.size() - limits_.max_kept);
  for (const auto& [time, entry] : kept) {
    remove_entry(entry);
    std::error_code error;
    fs::remove(entry.parent_path(), error);  // only if it is empty
  }
}

void remove_exports(const store::Store& store, const std::string& checkpoint) {
  const fs::path folder = exports_folder(store) / checkpoint;
  std::error_code error;
  if (fs::exists(folder, error)) remove_entry(folder);
}

void remove_orphaned_exports(store::Store& store) {
  for (const fs::path& folder : entries_of(exports_folder(store))) {
    const std::string id = folder.filename();
    auto reader = store.reader(store::Store::For::own);
    const auto checkpoint = store::find_checkpoint(*reader, id);
    if (!checkpoint || checkpoint->removed) remove_entry(folder);
  }
}

}  // namespace babelring::artifacts
