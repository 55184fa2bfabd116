#include "nmt/checkpoint/store.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/records.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
constexpr const char* best_name = "best";
constexpr const char* pin_name = "pinned";  // a file that protects its checkpoint from retention
constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view checkpoint_prefix = "update-";

/// True for "update-" and a number that fits into 64 bits.
bool is_checkpoint_name(std::string_view name) {
  constexpr std::size_t max_digits = 18;
  return name.size() > checkpoint_prefix.size() && name.size() <= checkpoint_prefix.size() + max_digits &&
         name.substr(0, checkpoint_prefix.size()) == checkpoint_prefix &&
         name.find_first_not_of("0123456789", checkpoint_prefix.size()) == std::string_view::npos;
}

/// True for the temporary names of this program: of a checkpoint that is written, replaced, removed (also by the
/// server) or marked as best.
bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(temporary_prefix)) return false;
  name.remove_prefix(temporary_prefix.size());
  return name == best_name || name == "replaced" || name.starts_with(checkpoint_prefix) ||
         name.starts_with("removed-update-") || name.starts_with("deleted-update-") || valid_id(name, 'x');
}

/// Removes the leftover of a write. A process whose run was taken over may still write there: once the folder has
/// another name, it cannot add files. Throws filesystem_error.
void remove_leftover(const fs::path& leftover) {
  const fs::path doomed = leftover.parent_path() / fmt::format("{}{}", temporary_prefix, make_id('x'));
  std::error_code error;
  fs::rename(leftover, doomed, error);
  if (error == std::errc::no_such_file_or_directory) return;  // its writer has removed it
  if (error) throw fs::filesystem_error("", leftover, error);
  do {  // that process may be removing the same files, as an old checkpoint's
    error.clear();
    fs::remove_all(doomed, error);
  } while (error == std::errc::no_such_file_or_directory);
  if (error) throw fs::filesystem_error("", doomed, error);
}

}  // namespace

std::vector<fs::path> checkpoint_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_symlink() && entry.is_directory() && is_checkpoint_name(entry.path().filename().string())) {
      folders.push_back(entry.path());
    }
  }
  const auto update = [](const fs::path& checkpoint) {
    const std::string name = checkpoint.filename().string();
    return std::pair(name.size(), name);  // a longer number is larger
  };
  std::sort(folders.begin(), folders.end(), [&](const auto& a, const auto& b) { return update(a) < update(b); });
  return folders;
}

CheckpointStore::CheckpointStore(const fs::path& folder, std::int64_t keep_last, bool keep_best)
    : folder_(fs::absolute(folder)), keep_last_(std::max<std::int64_t>(1, keep_last)), keep_best_(keep_best) {
  try {
    fs::create_directories(folder_);
    std::vector<fs::path> leftovers;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (is_temporary_name(entry.path().filename().string())) leftovers.push_back(entry.path());
    }
    for (const fs::path& leftover : leftovers) {
      spdlog::info("checkpoints: removing {}, left by an interrupted write", leftover.string());
      remove_leftover(leftover);
    }
  } catch (const fs::filesystem_error& error) {
    fail("checkpoints {}: {}", folder_.string(), error.code().message());
  }
}

std::unique_ptr<ScratchFolder> CheckpointStore::begin(std::int64_t update) const try {
  // A process that takes the run over may write the same update before this one notices.
  return std::make_unique<ScratchFolder>(
      folder_ / fmt::format("{}{}.{}", temporary_prefix, checkpoint_name(update), make_id('x')));
} catch (const fs::filesystem_error& error) {
  fail("checkpoint of update {} in {}: {}", update, folder_.string(), error.code().message());
}

CheckpointStore::Saved CheckpointStore::complete(const CheckpointContent& content,
                                                 std::unique_ptr<ScratchFolder> unfinished,
                                                 const std::function<void()>& guard) try {
  const Stopwatch watch;
  const std::string name = checkpoint_name(content.update);
  Saved saved;
  try {
    saved.saved = write_checkpoint_files(content, unfinished->path());
  } catch (...) {
    if (guard) guard();  // if the run was taken over, that is the cause
    throw;
  }
  if (guard) guard();
  publish(unfinished->path(), folder_ / name);
  unfinished.reset();
  saved.saved.name = name;
  saved.saved.folder = (folder_ / name).string();
  damaged_.erase(name);  // a damaged one was replaced
  if (saved.saved.best) mark_best(name);
  saved.removed = apply_retention(folder_ / name);
  double shards_seconds = 0;  // of the slowest host
  for (const CheckpointShard& shard : content.shards) shards_seconds = std::max(shards_seconds, shard.write_seconds);
  saved.saved.write_seconds = shards_seconds + watch.elapsed_ms() / 1000;
  return saved;
} catch (const fs::filesystem_error& error) {
  fail("checkpoint of update {} in {}: {}", content.update, folder_.string(), error.code().message());
}

std::vector<CheckpointRecord> CheckpointStore::move_aside_after(std::int64_t update) const try {
  std::vector<CheckpointRecord> moved;
  for (const fs::path& folder : list()) {
    const std::string name = folder.filename().string();
    const std::int64_t found = std::stoll(name.substr(checkpoint_prefix.size()));
    if (found <= update) continue;
    fs::path target = folder_ / "aside" / name;
    fs::create_directories(target.parent_path());
    for (int copy = 2; fs::exists(target); ++copy) target = folder_ / "aside" / fmt::format("{}-{}", name, copy);
    std::error_code no_link;
    if (fs::read_symlink(folder_ / best_name, no_link) == name) fs::remove(folder_ / best_name);
    fs::rename(folder, target);
    spdlog::info("checkpoints: moved {} aside, training {}", name,
                 update < 0 ? "starts over" : fmt::format("continues from update {}", update));
    CheckpointRecord record;
    record.update = found;
    record.name = name;
    record.folder = target.string();
    record.removed = true;
    moved.push_back(std::move(record));
  }
  if (!moved.empty()) {
    sync_folder(folder_ /
                "aside");  // first, so that after a power loss a checkpoint may be in both places but never in neither
    sync_folder(folder_);
  }
  return moved;
} catch (const fs::filesystem_error& error) {
  fail("checkpoints {}: {}", folder_.string(), error.code().message());
}

void CheckpointStore::publish(const fs::path& temporary, const fs::path& target) const {
  sync_folder(temporary);
  if (fs::exists(target / pin_name)) write_file_atomically(temporary / pin_name, "");
  // Exchanges the new checkpoint with an existing one of the same update atomically, so one of them always exists. If
  // the file system cannot exchange (NFS), the old one is renamed first.
  if (fs::exists(target) && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(folder_);
    return;  // the caller removes the old one, now at `temporary`
  }
  const fs::path replaced = folder_ / (std::string(temporary_prefix) + "replaced");
  if (fs::exists(target)) fs::rename(target, replaced);
  fs::rename(temporary, target);
  sync_folder(folder_);
  fs::remove_all(replaced);
}

void CheckpointStore::mark_best(const std::string& name) const {
  const fs::path link = folder_ / (std::string(temporary_prefix) + best_name);
  fs::remove(link);
  fs::create_directory_symlink(name, link);
  fs::rename(link, folder_ / best_name);
  sync_folder(folder_);
}

std::optional<Checkpoint> CheckpointStore::latest() try {
  std::vector<fs::path> folders = list();
  std::vector<std::string> reasons;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    Result<Checkpoint> checkpoint = load_checkpoint(*folder);
    if (checkpoint.ok()) {
      for (const std::string& reason : reasons) spdlog::warn("skipping damaged {}", reason);
      return std::move(checkpoint).value();
    }
    reasons.push_back(checkpoint.error());
    damaged_.insert(folder->filename().string());
  }
  if (reasons.empty()) return std::nullopt;
  fail(
      "checkpoints {}: none of {} can be used; repair one, or start over with --from-scratch, which moves them to "
      "checkpoints/aside: {}",
      folder_.string(), reasons.size(), fmt::join(reasons, "; "));
} catch (const fs::filesystem_error& error) {
  fail("checkpoints {}: {}", folder_.string(), error.code().message());
}

std::vector<CheckpointRecord> CheckpointStore::apply_retention(const fs::path& newest) const {
  std::error_code error;
  const fs::path best = keep_best_ ? fs::read_symlink(folder_ / best_name, error) : fs::path();
  std::vector<CheckpointRecord> removed;
  std::int64_t kept = 0;
  std::vector<fs::path> folders = list();
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const Result<Checkpoint> checkpoint = load_checkpoint(*folder, Verify::sizes);
    const bool keep =
        *folder == newest || folder->filename() == best || kept < keep_last_ || fs::exists(*folder / pin_name);
    if (keep) {
      const bool damaged = !checkpoint.ok() || damaged_.contains(folder->filename().string());
      kept += damaged ? 0 : 1;  // a damaged one does not count
      continue;
    }
    // Renamed first, so that an interrupted removal leaves no partial checkpoint under its name. Each gets its own
    // temporary name, so one that cannot be removed (NFS keeps open files) does not block the others.
    const fs::path doomed = folder_ / fmt::format("{}removed-{}", temporary_prefix, folder->filename().string());
    fs::rename(*folder, doomed, error);
    if (error == std::errc::no_such_file_or_directory) continue;  // the server has just removed it
    if (!error && fs::exists(doomed / pin_name)) {                // pinned between the check and the rename
      fs::rename(doomed, *folder, error);
      continue;
    }
    if (!error) fs::remove_all(doomed, error);
    if (error) {
      spdlog::warn("checkpoints: cannot remove {}: {}", folder->string(), error.message());
    } else {
      CheckpointRecord record = checkpoint.ok() ? record_of(*checkpoint) : CheckpointRecord{};
      record.name = folder->filename().string();
      record.folder = folder->string();
      record.update = std::stoll(record.name.substr(checkpoint_prefix.size()));
      record.removed = true;
      removed.push_back(std::move(record));
    }
  }
  return removed;
}

}  // namespace babelring
