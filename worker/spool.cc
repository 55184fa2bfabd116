#include "worker/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/result.h"

namespace babelring {
namespace {

/// Equal on two ranks if they share this folder and one kernel, so that file locks work between them. Empty if the
/// folder cannot be created.
std::string folder_identity(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return "";
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string kernel;
  std::getline(file, kernel);
  return fmt::format("{} {} {}", kernel, status.st_dev, status.st_ino);
}

}  // namespace

RecordSender choose_record_sender(Communicator& communicator, const std::filesystem::path& spool_folder,
                                  std::int64_t attempt) {
  const std::filesystem::path folder = spool_path(spool_folder, attempt, 0).parent_path();
  const std::vector<std::string> folders = communicator.all_gather(folder_identity(folder));
  const std::vector<std::string>& hosts = communicator.hosts();
  const auto own = static_cast<std::size_t>(communicator.rank());
  RecordSender sender;
  if (folders[own].empty()) return sender;
  for (std::size_t rank = 0; rank < folders.size(); ++rank) {
    if (rank == own || folders[rank] != folders[own] || hosts[rank] != hosts[own]) continue;
    if (rank < own) {
      sender.by = static_cast<std::int64_t>(rank);
      return sender;
    }
    sender.served.push_back(static_cast<std::int64_t>(rank));
  }
  return sender;
}

namespace {

namespace fs = std::filesystem;

std::string system_error() {
  return std::generic_category().message(errno);
}

}  // namespace

SpoolWriter::SpoolWriter(const fs::path& file, SpoolLimits limits)
    : file_(file), limits_(limits), watch_(fmt::format("spool {}", file.string()), limits.late) {
  std::error_code error;
  if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), error);
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("spool {}: cannot open: {}", file_.string(), system_error());
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) fail("spool {}: in use by another process", file_.string());
    recover();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  thread_ = std::thread([this] { run(); });
}

SpoolWriter::~SpoolWriter() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  wanted_changed_.notify_one();
  thread_.join();
  ::close(descriptor_);
}

void SpoolWriter::recover() {
  const std::string content = read_file(file_);
  const std::size_t end = content.rfind('\n') + 1;  // npos + 1 is 0
  if (end < content.size()) {
    spdlog::warn("spool {}: dropping {} bytes of an incomplete last line", file_.string(), content.size() - end);
    if (::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
      fail("spool {}: cannot drop the incomplete last line: {}", file_.string(), system_error());
    }
  }
  size_ = static_cast<std::int64_t>(end);
  const fs::path older = older_part(file_);
  if (inode_of(older) == inode_of(file_)) ::unlink(older.c_str());  // killed while it rotated the spool
  std::error_code absent;
  const auto older_bytes = static_cast<std::int64_t>(fs::file_size(older, absent));
  if (!absent) older_sequence_ = spool_sequence_before(older, older_bytes).value_or(0);
  next_sequence_ = 1 + older_sequence_ + std::count(content.begin(), content.end(), '\n');
  // Records that were sent from memory while the disk was full are not in the file, so count lines and look at the
  // last.
  next_sequence_ = std::max(next_sequence_, spool_sequence_before(file_, size_).value_or(0) + 1);
}

std::int64_t SpoolWriter::next_sequence() const {
  const Lock lock(mutex_);
  return next_sequence_;
}

void SpoolWriter::append(const Record& record) {
  std::string line = to_text(to_json(record)) + "\n";
  Lock lock(mutex_);
  if (!kept_.empty()) settle(lock, limits_.patience);  // a trial may make room
  if (!kept_.empty() && !room_for(record, line.size())) {
    ++dropped_;
    return;
  }
  kept_bytes_ += line.size();
  kept_.push_back({next_sequence_++, std::move(line)});
  settle(lock, limits_.patience);
}

void SpoolWriter::write_kept() {
  Lock lock(mutex_);
  next_trial_ = {};
  settle(lock, std::nullopt);
}

void SpoolWriter::release() {
  Lock lock(mutex_);
  released_ = true;
  settle(lock, limits_.patience);
}

/// Lets the thread try to write what is kept, and waits for the end of the trial: for at most `patience`, or not at all
/// while an earlier trial takes longer than that.
void SpoolWriter::settle(Lock& lock, std::optional<std::chrono::milliseconds> patience) {
  const std::int64_t trial = ++wanted_;
  wanted_changed_.notify_one();
  const auto tried = [&] { return tried_ >= trial; };
  if (!patience) return tried_changed_.wait(lock, tried);
  if (waits_) waits_ = tried_changed_.wait_for(lock, *patience, tried);
}

bool SpoolWriter::room_for(const Record& record, std::size_t bytes) const {
  const bool frequent =
      std::holds_alternative<StepRecord>(record.body) || std::holds_alternative<LogRecord>(record.body);
  return kept_bytes_ + bytes <= (frequent ? limits_.max_kept_bytes / 4 * 3 : limits_.max_kept_bytes);
}

Status SpoolWriter::last_write() const {
  const Lock lock(mutex_);
  return last_write_;
}

bool SpoolWriter::is_stuck() const {
  return !kept_.empty() && (!last_write_ || watch_.late());
}

bool SpoolWriter::stuck() const {
  const Lock lock(mutex_);
  return is_stuck();
}

std::int64_t SpoolWriter::dropped() const {
  const Lock lock(mutex_);
  return dropped_;
}

std::vector<Record> SpoolWriter::kept(std::size_t max_records, std::size_t max_bytes) const {
  const Lock lock(mutex_);
  std::vector<Record> records;
  if (!is_stuck()) return records;
  std::size_t bytes = 0;
  for (const Line& line : kept_) {
    if (line.sequence <= forgotten_) continue;
    bytes += line.text.size();
    if (records.size() == max_records || (!records.empty() && bytes > max_bytes)) break;
    records.push_back(parse_spool_line(std::string_view(line.text).substr(0, line.text.size() - 1)).value());
  }
  return records;
}

void SpoolWriter::forget_kept(std::int64_t sequence) {
  const Lock lock(mutex_);
  forgotten_ = std::max(forgotten_, sequence);
  const auto first = writing_ ? std::next(kept_.begin()) : kept_.begin();
  const auto end = std::find_if(first, kept_.end(), [&](const Line& line) { return line.sequence > sequence; });
  for (auto line = first; line != end; ++line) kept_bytes_ -= line->text.size();
  kept_.erase(first, end);
}

std::int64_t SpoolWriter::kept_records() const {
  const Lock lock(mutex_);
  return std::count_if(kept_.begin(), kept_.end(), [this](const Line& line) { return line.sequence > forgotten_; });
}

void SpoolWriter::drop_first() {
  kept_bytes_ -= kept_.front().text.size();
  kept_.pop_front();
}

void SpoolWriter::run() {
  const WriteWatch::Scope scope(watch_);
  Lock lock(mutex_);
  for (bool unlocked = false;;) {
    wanted_changed_.wait(lock, [this] { return ending_ || tried_ != wanted_; });
    if (tried_ == wanted_) return;
    const std::int64_t trial = wanted_;
    write_lines(lock);
    if (released_ && !std::exchange(unlocked, true)) ::flock(descriptor_, LOCK_UN);
    tried_ = trial;
    waits_ = true;
    tried_changed_.notify_all();
  }
}

/// Writes the kept lines until one fails, but none if one has failed less than limits_.between_trials ago. Unlocks
/// while it writes.
void SpoolWriter::write_lines(Lock& lock) {
  while (!kept_.empty() && (last_write_ || SteadyClock::now() >= next_trial_)) {
    const Line& first = kept_.front();
    const bool rotates = last_write_.ok() && !released_;
    writing_ = true;
    lock.unlock();
    if (rotates) rotate_if_due(first.sequence);
    Status written = write_line(first.text);
    lock.lock();
    writing_ = false;
    last_write_ = std::move(written);
    if (!last_write_) {
      next_trial_ = SteadyClock::now() + limits_.between_trials;
      return;
    }
    drop_first();
  }
}

void SpoolWriter::rotate_if_due(std::int64_t sequence) {
  if (limits_.max_bytes == 0 || size_ < limits_.max_bytes / 2) return;
  const fs::path older = older_part(file_), next = file_.string() + ".next";
  const WatchedCall watched;
  if (inode_of(older) != 0) {
    const std::optional<SpoolMark> mark = read_spool_mark(file_);
    if (older_sequence_ == 0 || !mark || mark->sequence < older_sequence_) return;
  }
  const int fresh = ::open(next.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fresh < 0) return;
  ::unlink(older.c_str());
  // There is a file of each name at any moment, so that a reader, or a writer after a crash, misses no record.
  if (::flock(fresh, LOCK_EX | LOCK_NB) != 0 || ::link(file_.c_str(), older.c_str()) != 0 ||
      ::rename(next.c_str(), file_.c_str()) != 0) {
    ::unlink(older.c_str());
    ::unlink(next.c_str());
    ::close(fresh);
    older_sequence_ = 0;
    return;
  }
  ::close(std::exchange(descriptor_, fresh));
  size_ = 0;
  older_sequence_ = sequence - 1;
}

/// After an error the file ends with the last complete line, or with an incomplete one that the next write overwrites.
Status SpoolWriter::write_line(const std::string& line) {
  const WatchedCall watched;
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::pwrite(descriptor_, line.data() + done, line.size() - done,
                                     static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      std::string error = system_error();
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) error += "; the last line is incomplete";
      return Error{std::move(error)};
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(line.size());
  return {};
}

}  // namespace babelring
