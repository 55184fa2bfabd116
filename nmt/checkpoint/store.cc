#include "nmt/checkpoint/store.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/result.h"
#include "base/write_watch.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
constexpr const char* pin_name = "pinned";  // a file that protects its checkpoint from retention
constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view checkpoint_prefix = "update-";

/// True for the temporary names of this program: of a checkpoint that is written, replaced, removed (also by the
/// server) or marked as best.
bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(temporary_prefix)) return false;
  name.remove_prefix(temporary_prefix.size());
  return name == best_name || name == "replaced" || name.starts_with(checkpoint_prefix) ||
         name.starts_with("removed-update-") || name.starts_with("deleted-update-") || valid_id(name, 'x');
}

/// Removes a folder, as the leftover of a write. A process whose run was taken over may still write there: once the
/// folder has another name, it cannot add files. Throws filesystem_error.
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

/// Moves an entry of the folder of checkpoints into its subfolder `aside`, under a name that is free. Returns its
/// place.
fs::path move_aside(const fs::path& entry) {
  const std::string name = entry.filename().string();
  const fs::path aside = entry.parent_path() / "aside";
  fs::create_directories(aside);
  fs::path target = aside / name;
  for (int copy = 2; fs::exists(target); ++copy) target = aside / fmt::format("{}-{}", name, copy);
  fs::rename(entry, target);
  return target;
}

/// Takes the mark `best` away: a link, a file with a name, or a folder that repeats a checkpoint. Anything else of that
/// name is not the store's and is moved aside.
void remove_mark(const fs::path& mark) {
  const fs::file_status status = fs::symlink_status(mark);
  if (!fs::exists(status)) return;
  const bool named = is_checkpoint_name(best_checkpoint_name(mark.parent_path()));
  if (fs::is_symlink(status) || (named && !fs::is_directory(status))) {
    fs::remove(mark);
  } else if (named) {
    remove_leftover(mark);
  } else {
    spdlog::info("checkpoints: moved {} to {}: no checkpoint here is the same", mark.string(),
                 move_aside(mark).string());
  }
}

/// Carries out a step after the checkpoint `name` was published. A failure is logged: the checkpoint is there.
void after_publishing(const std::string& name, const char* failed, const std::function<void()>& step) {
  const auto warn = [&](const std::string& reason) {
    spdlog::warn("checkpoint {} is written, but {}: {}", name, failed, reason);
  };
  try {
    step();
  } catch (const fs::filesystem_error& error) {
    warn(fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const Failure& failure) {
    warn(failure.what());
  }
}

}  // namespace

fs::path find_checkpoint(const fs::path& given) {
  const auto is_checkpoint = [](const fs::path& folder) { return fs::exists(folder / "state.json"); };
  if (is_checkpoint(given)) return given;
  const bool mark = given.filename() == best_name && fs::is_regular_file(given);
  const fs::path own = mark ? fs::absolute(given).parent_path() : given;
  const fs::path store = fs::is_directory(own / "checkpoints") ? own / "checkpoints" : own;
  if (is_checkpoint(store / best_name)) return store / best_name;
  const std::string best = best_checkpoint_name(store);
  if (!best.empty() && is_checkpoint(store / best)) return store / best;
  if (mark) fail("{}: names no checkpoint that is here; expected the name of a folder beside it", given.string());
  if (!fs::is_directory(store)) fail("{}: no such folder; expected a checkpoint or a run's folder", store.string());
  std::vector<fs::path> found = checkpoint_folders(store);
  std::erase_if(found, [&](const fs::path& folder) { return !is_checkpoint(folder); });
  if (found.empty()) fail("{}: no checkpoint here; expected state.json, `best` or update-NNN folders", given.string());
  if (!best.empty()) {
    spdlog::warn("{}: the best checkpoint, {}, is not here; the newest, {}, is used", store.string(), best,
                 found.back().filename().string());
  }
  return found.back();
}

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

Result<Checkpoint> find_and_load_checkpoint(const fs::path& given, Verify verify) {
  try {
    return load_checkpoint(find_checkpoint(given), verify);
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
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
  const WatchedCall watched;
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
  const WatchedCall watched;
  publish(unfinished->path(), folder_ / name);
  unfinished.reset();
  after_publishing(name, "may be lost if the power fails now", [&] { sync_folder(folder_); });
  saved.saved.name = name;
  saved.saved.folder = (folder_ / name).string();
  damaged_.erase(name);  // a damaged one was replaced
  if (saved.saved.best) {
    unmarked_best_ = name;
    after_publishing(name, "is not marked as the best", [&] { mark_best(name); });
  }
  after_publishing(name, "older checkpoints may not have been removed",
                   [&] { apply_retention(folder_ / name, saved.removed); });
  double shards_seconds = 0;  // of the slowest host
  for (const CheckpointShard& shard : content.shards) shards_seconds = std::max(shards_seconds, shard.write_seconds);
  saved.saved.write_seconds = shards_seconds + watch.elapsed_ms() / 1000;
  return saved;
} catch (const fs::filesystem_error& error) {
  fail("checkpoint of update {} in {}: {}", content.update, folder_.string(), error.code().message());
}

void CheckpointStore::require(std::int64_t update) const {
  std::int64_t newest = 0;
  for (const fs::path& folder : {folder_, folder_ / "aside"}) {
    const std::vector<fs::path> checkpoints = fs::exists(folder) ? checkpoint_folders(folder) : std::vector<fs::path>();
    if (checkpoints.empty()) continue;
    const std::string name = checkpoints.back().filename().string();
    newest = std::max<std::int64_t>(newest, std::stoll(name.substr(checkpoint_prefix.size())));
  }
  if (newest >= update) return;
  throw UsageFailure(fmt::format(
      "{}: expected the checkpoint of update {} or a later one, found {}: is its file system mounted, and is this the "
      "folder of the run? If the checkpoint was deleted, resume from another one (nmt run resume --checkpoint)",
      folder_.string(), update, newest == 0 ? "none" : fmt::format("update {} as the newest", newest)));
}

std::vector<CheckpointRecord> CheckpointStore::move_aside_after(std::int64_t update) try {
  std::vector<CheckpointRecord> moved;
  const std::string best = best_checkpoint_name(folder_);
  for (const fs::path& folder : list()) {
    const std::string name = folder.filename().string();
    const std::int64_t found = std::stoll(name.substr(checkpoint_prefix.size()));
    if (found <= update) continue;
    if (name == best) remove_mark(folder_ / best_name);
    if (name == unmarked_best_) unmarked_best_.clear();
    const fs::path target = move_aside(folder);
    spdlog::info("checkpoints: moved {} aside, training {}", name,
                 update < 0 ? "starts over" : fmt::format("continues from update {}", update));
    CheckpointRecord record;
    record.update = found;
    record.name = name;
    record.folder = target.string();
    record.removed = true;
    moved.push_back(std::move(record));
  }
  if (best == best_name) {  // a copy of a checkpoint that is not here
    const Result<Checkpoint> copy = load_checkpoint(folder_ / best_name, Verify::sizes);
    if (!copy.ok() || copy->update > update) remove_mark(folder_ / best_name);
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
  const bool replaces = fs::exists(target);
  if (replaces && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return;  // the caller removes the old one, now at `temporary`
  }
  const fs::path replaced = folder_ / fmt::format("{}{}", temporary_prefix, make_id('x'));
  if (replaces) fs::rename(target, replaced);
  std::error_code error;
  fs::rename(temporary, target, error);
  std::error_code ignored;
  if (error) {
    if (replaces) fs::rename(replaced, target, ignored);
    throw fs::filesystem_error("", target, error);
  }
  if (replaces) fs::remove_all(replaced, ignored);
}

void CheckpointStore::mark_best(const std::string& name) {
  const fs::path mark = folder_ / best_name, link = folder_ / (std::string(temporary_prefix) + best_name);
  if (!fs::is_symlink(mark)) remove_mark(mark);
  fs::remove(link);
  std::error_code no_links;  // vfat, exfat, some network file systems
  fs::create_directory_symlink(name, link, no_links);
  if (no_links) {
    write_file_atomically(mark, name + "\n");
  } else {
    fs::rename(link, mark);
  }
  unmarked_best_.clear();
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

void CheckpointStore::apply_retention(const fs::path& newest, std::vector<CheckpointRecord>& removed) const {
  const std::string marked = unmarked_best_.empty() ? best_checkpoint_name(folder_) : unmarked_best_;
  const fs::path best = keep_best_ ? marked : "";
  std::error_code error;
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
}

}  // namespace babelring
