#include "server/artifacts/checkpoint_files.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/digest.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/http/download.h"
#include "server/http/reply.h"
#include "server/store/checkpoints.h"
#include "server/store/runs.h"

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;
constexpr const char* pin_name = "pinned";
constexpr const char* sums_name = "SHA256SUMS";

FileDescriptor open_folder(const fs::path& folder) {
  return FileDescriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

[[noreturn]] void refuse(const fs::path& path, const char* what) {
  throw http::Problem(409, "not_writable", fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

std::string text_of(const FileDescriptor& file) {
  std::string text(64 << 10, '\0');
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

/// Whether every file fits in one line of SHA256SUMS. Older releases stored names with line breaks.
bool fits_lines(const std::vector<ManifestFile>& files) {
  return std::none_of(files.begin(), files.end(),
                      [](const auto& file) { return !check_name(file.name) || !check_name(file.sha256); });
}

/// The name of a file in the folder that is not part of this checkpoint, or SHA256SUMS if it differs from the manifest.
/// Protects foreign files from records with a forged manifest.
std::string stranger_in(const fs::path& folder, const std::vector<ManifestFile>& files) {
  if (!fits_lines(files) || text_of(http::open_beneath(folder, sums_name)) != sums_of(files)) return sums_name;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    // Also what a translation in int8 left when it was killed while it wrote: its name and a suffix.
    const bool known = name == sums_name || name == pin_name || name.starts_with(quantized_file_name) ||
                       std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.name == name; });
    if (!known || entry.is_directory()) return name;
  }
  return {};
}

/// The canonical path of the recorded folder, which need not exist. Throws Problem 409.
fs::path recorded_folder(const Roots& roots, const store::CheckpointRow& checkpoint) {
  if (auto folder = folder_below(roots, checkpoint.folder, checkpoint.name)) return std::move(*folder);
  throw http::Problem(
      409, "outside_roots",
      fmt::format(
          "checkpoint {} was written to {}, which is not below a --checkpoint-root of this server; if the folder "
          "has moved, stop the server and run it once with --moved /OLD=/NEW",
          checkpoint.id, checkpoint.folder));
}

/// The path to which a checkpoint is renamed before its files are deleted. The worker also cleans it up at its next
/// start.
fs::path doomed_of(const fs::path& folder) {
  return folder.parent_path() / (".tmp-deleted-" + folder.filename().string());
}

void remove_doomed(const fs::path& doomed) {
  const FileDescriptor opened = open_folder(doomed);
  if (!opened) refuse(doomed, "cannot remove");
  for (const auto& entry : fs::directory_iterator(doomed)) unlinkat(opened.get(), entry.path().filename().c_str(), 0);
  if (rmdir(doomed.c_str()) != 0) refuse(doomed, "cannot remove");
  const FileDescriptor parent = open_folder(doomed.parent_path());
  if (parent) fsync(parent.get());
}

}  // namespace

store::CheckpointRow require_checkpoint(store::Store& store, const std::string& id) {
  auto reader = store.reader();
  auto checkpoint = valid_id(id, 'c') ? store::find_checkpoint(*reader, id) : std::nullopt;
  if (!checkpoint) throw http::Problem(404, "checkpoint_unknown", fmt::format("no checkpoint '{}'", id));
  return std::move(*checkpoint);
}

store::CheckpointRow require_loadable(store::Store& store, const Roots& roots, const std::string& id) {
  store::CheckpointRow checkpoint = require_checkpoint(store, id);
  const fs::path folder = folder_of(roots, checkpoint);
  const auto files = manifest_of(checkpoint);
  if (files.empty()) throw http::Problem(422, "incomplete", fmt::format("checkpoint {} is not complete", id));
  for (const ManifestFile& file : files) open_file(folder, file);
  checkpoint.folder = folder.string();
  return checkpoint;
}

std::vector<ManifestFile> manifest_of(const store::CheckpointRow& checkpoint) {
  std::vector<ManifestFile> files;
  const auto manifest = parse_json(checkpoint.files);
  for (const json::value& entry : manifest.value().as_array()) {
    const json::object& facts = entry.as_object();
    files.push_back({std::string(facts.at("name").as_string()), facts.at("size").to_number<std::int64_t>(),
                     std::string(facts.at("sha256").as_string())});
  }
  return files;
}

std::int64_t bytes_of(const std::vector<ManifestFile>& files) {
  std::int64_t bytes = 0;
  for (const ManifestFile& file : files) bytes += file.bytes;
  return bytes;
}

std::string sums_of(const std::vector<ManifestFile>& files) {
  std::string text;
  if (!fits_lines(files)) {
    throw http::Problem(409, "damaged", "the manifest has a file name or digest with a control character");
  }
  for (const ManifestFile& file : files) text += file.sha256 + "  " + file.name + '\n';
  return text;
}

fs::path folder_of(const Roots& roots, const store::CheckpointRow& checkpoint) {
  if (checkpoint.removed) {
    throw http::Problem(410, "removed", fmt::format("checkpoint {} was removed", checkpoint.id));
  }
  const fs::path folder = recorded_folder(roots, checkpoint);
  // Only a worker writes that file: without it the folder is not a checkpoint.
  if (!http::open_beneath(folder, "state.json")) {
    throw http::Problem(410, "gone", fmt::format("checkpoint {} is no longer on this machine", checkpoint.id));
  }
  return folder;
}

FileDescriptor open_file(const fs::path& folder, const ManifestFile& file) {
  FileDescriptor opened = http::open_beneath(folder, file.name);
  struct stat status{};
  if (!opened) {
    throw http::Problem(410, "gone", fmt::format("file '{}' is missing or not a regular file", file.name));
  }
  if (fstat(opened.get(), &status) != 0 || status.st_size != file.bytes) {
    throw http::Problem(
        409, "damaged",
        fmt::format("file '{}' has {} bytes, expected {} by its record", file.name, status.st_size, file.bytes));
  }
  return opened;
}

OnDisk inspect(const Roots& roots, const store::CheckpointRow& checkpoint) {
  try {
    const fs::path folder = folder_of(roots, checkpoint);
    for (const ManifestFile& file : manifest_of(checkpoint)) open_file(folder, file);
    return OnDisk::intact;
  } catch (const http::Problem& problem) {
    if (problem.code() == "outside_roots") return OnDisk::elsewhere;
    return problem.code() == "damaged" ? OnDisk::damaged : OnDisk::gone;
  }
}

bool digests_match(const Roots& roots, const store::CheckpointRow& checkpoint) {
  try {
    const fs::path folder = folder_of(roots, checkpoint);
    for (const ManifestFile& file : manifest_of(checkpoint)) {
      const FileDescriptor opened = open_file(folder, file);
      if (sha256_file(fmt::format("/proc/self/fd/{}", opened.get())) != file.sha256) return false;
    }
    return true;
  } catch (const std::exception&) {  // gone, of another size, or not readable
    return false;
  }
}

bool has_space_for_next(store::Store& store, const Roots& roots) {
  std::vector<store::CheckpointRow> newest;
  {
    auto reader = store.reader();
    newest = store::newest_of_active_runs(*reader, wall_time_ms() - store::forgotten_ms);
  }
  for (const store::CheckpointRow& checkpoint : newest) {
    try {
      const auto wanted = static_cast<std::uintmax_t>(bytes_of(manifest_of(checkpoint)));
      const fs::path folder = folder_of(roots, checkpoint).parent_path();
      std::error_code error;
      const auto space = fs::space(folder, error);
      if (error || space.available >= wanted) continue;
      spdlog::warn("run {}: {} bytes are free in {}, its newest checkpoint has {}", checkpoint.run, space.available,
                   folder.string(), wanted);
      return false;
    } catch (const http::Problem&) {
      continue;  // not below a root, or gone
    }
  }
  return true;
}

bool is_marked(const fs::path& folder) {
  std::error_code error;
  return fs::exists(fs::symlink_status(folder / pin_name, error));
}

void mark_pinned(const fs::path& folder, bool pinned) {
  const FileDescriptor opened = open_folder(folder);
  if (!opened) throw http::Problem(410, "gone", fmt::format("{} no longer exists", folder.string()));
  if (!pinned) {
    if (unlinkat(opened.get(), pin_name, 0) != 0 && errno != ENOENT) refuse(folder, "cannot unpin");
    return;
  }
  const FileDescriptor marker(openat(opened.get(), pin_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!marker || fsync(opened.get()) != 0) refuse(folder, "cannot pin");
  // The worker's retention may have renamed the folder meanwhile. It checks for the mark after renaming; this checks
  // for the folder after marking.
  struct stat mine{}, named{};
  if (fstat(opened.get(), &mine) != 0 || lstat(folder.c_str(), &named) != 0 || mine.st_ino != named.st_ino ||
      mine.st_dev != named.st_dev) {
    throw http::Problem(410, "gone", fmt::format("{} has just been removed", folder.string()));
  }
}

void require_removable(const fs::path& folder, const std::vector<ManifestFile>& files) {
  const std::string stranger = stranger_in(folder, files);
  if (stranger.empty()) return;
  throw http::Problem(
      409, "foreign_files",
      fmt::format("{} has '{}', which is not part of this checkpoint: nothing was removed", folder.string(), stranger));
}

void remove_folder(const fs::path& folder, const std::vector<ManifestFile>& files) {
  require_removable(folder, files);
  // Rename first, so that an interrupted removal leaves no partial checkpoint.
  const fs::path doomed = doomed_of(folder);
  if (rename(folder.c_str(), doomed.c_str()) != 0) refuse(folder, "cannot remove");
  failpoint("removal_renamed");
  remove_doomed(doomed);
}

void sweep_removed(const Roots& roots, const store::CheckpointRow& checkpoint) {
  const fs::path doomed = doomed_of(recorded_folder(roots, checkpoint));
  if (open_folder(doomed)) remove_doomed(doomed);
}

}  // namespace babelring::artifacts
