#include "worker/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/file_descriptor.h"
#include "base/parse_number.h"
#include "base/spool_files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string system_error() {
  return std::generic_category().message(errno);
}

/// Parses a line of the spool.
Result<Record> parse_line(std::string_view line) {
  const auto value = parse_json(line);
  if (!value.ok()) return Error{value.error()};
  if (!value->is_object()) return Error{"expected a JSON object"};
  UnknownMembers newer;  // a newer worker may have written the line; send the known members
  return record_from_json(value->get_object(), &newer);
}

bool same_origin(const RecordHeader& a, const RecordHeader& b) {
  return a.run == b.run && a.attempt == b.attempt && a.rank == b.rank && a.host == b.host;
}

/// Sequence of the record whose line is the last within the first `end` bytes of the file. 0: the line is damaged.
/// Absent: no line ends there.
std::optional<std::int64_t> sequence_before(const fs::path& file, std::int64_t end) {
  std::ifstream in(file, std::ios::binary);
  for (std::int64_t bytes = 1 << 16; end > 0; bytes *= 4) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - bytes);
    std::string text(static_cast<std::size_t>(end - begin), '\0');
    in.seekg(begin);
    if (!in.read(text.data(), end - begin) || text.back() != '\n') return std::nullopt;
    text.pop_back();
    const std::size_t before = text.rfind('\n');
    if (before == std::string::npos && begin > 0) continue;
    const Result<Record> record = parse_line(std::string_view(text).substr(before + 1));  // npos + 1 is 0
    return record ? record->header.sequence : 0;
  }
  return std::nullopt;
}

/// The last acknowledged line: where it ends in its part of the spool, and the sequence of its record.
struct Mark {
  std::int64_t end = 0, sequence = 0;
};

fs::path mark_file(const fs::path& spool) {
  return fs::path(spool).replace_extension(".ack");
}

/// Absent if there is no such file, or if its content is damaged. The sequence of an older program's mark is 0.
std::optional<Mark> read_mark(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || in.eof()) return std::nullopt;
  const std::size_t space = std::min(line.find(' '), line.size());
  const auto end = parse_number<std::int64_t>(line.substr(0, space));
  const auto sequence = parse_number<std::int64_t>(space < line.size() ? line.substr(space + 1) : "0");
  if (!end || *end < 0 || !sequence) return std::nullopt;
  return Mark{*end, *sequence};
}

/// Whether the marked line is in this part. Without a sequence only its end tells.
bool has_marked(const fs::path& part, const Mark& mark) {
  const std::optional<std::int64_t> found = sequence_before(part, mark.end);
  return found && (mark.sequence == 0 || *found == mark.sequence);
}

/// The inode of a file; 0 if it does not exist.
std::uint64_t id_of(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

fs::path spool_path(const fs::path& folder, std::int64_t attempt, std::int64_t rank) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.jsonl", rank);
}

bool has_writer(const fs::path& spool) {
  const FileDescriptor file(::open(spool.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() >= 0 && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

SpoolWriter::SpoolWriter(const fs::path& file, SpoolLimits limits) : file_(file), limits_(limits) {
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
}

SpoolWriter::~SpoolWriter() {
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
  if (id_of(older) == id_of(file_)) ::unlink(older.c_str());  // killed while it rotated the spool
  std::error_code absent;
  const auto older_bytes = static_cast<std::int64_t>(fs::file_size(older, absent));
  if (!absent) older_sequence_ = sequence_before(older, older_bytes).value_or(0);
  next_sequence_ = 1 + older_sequence_ + std::count(content.begin(), content.end(), '\n');
  // Records that were sent from memory while the disk was full are not in the file, so count lines and look at the
  // last.
  next_sequence_ = std::max(next_sequence_, sequence_before(file_, size_).value_or(0) + 1);
}

void SpoolWriter::rotate_if_due() {
  if (limits_.max_bytes == 0 || size_ < limits_.max_bytes / 2 || !kept_.empty()) return;
  const fs::path older = older_part(file_), next = file_.string() + ".next";
  if (id_of(older) != 0) {
    const std::optional<Mark> mark = read_mark(mark_file(file_));
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
  older_sequence_ = next_sequence_ - 1;
}

void SpoolWriter::append(const Record& record) {
  try_kept();
  rotate_if_due();
  std::string line = to_text(to_json(record)) + "\n";
  if (kept_.empty() && write_line(line)) {
    ++next_sequence_;
  } else if (room_for(record, line.size())) {
    kept_bytes_ += line.size();
    kept_.push_back({next_sequence_++, std::move(line)});
  } else {
    ++dropped_;
  }
}

bool SpoolWriter::room_for(const Record& record, std::size_t bytes) const {
  const bool frequent =
      std::holds_alternative<StepRecord>(record.body) || std::holds_alternative<LogRecord>(record.body);
  return kept_bytes_ + bytes <= (frequent ? limits_.max_kept_bytes / 4 * 3 : limits_.max_kept_bytes);
}

void SpoolWriter::write_kept() {
  next_trial_ = {};
  try_kept();
}

void SpoolWriter::try_kept() {
  while (!kept_.empty() && write_line(kept_.front().text)) drop_first();
}

void SpoolWriter::drop_first() {
  kept_bytes_ -= kept_.front().text.size();
  kept_.pop_front();
}

std::vector<Record> SpoolWriter::kept(std::size_t max_records, std::size_t max_bytes) const {
  std::vector<Record> records;
  std::size_t bytes = 0;
  for (const Line& line : kept_) {
    bytes += line.text.size();
    if (records.size() == max_records || (!records.empty() && bytes > max_bytes)) break;
    records.push_back(parse_line(std::string_view(line.text).substr(0, line.text.size() - 1)).value());
  }
  return records;
}

void SpoolWriter::forget_kept(std::int64_t sequence) {
  while (!kept_.empty() && kept_.front().sequence <= sequence) drop_first();
}

/// Returns false if the write fails, or if one failed less than limits_.between_trials ago. The file then ends with the
/// last complete line, or with an incomplete line that the next write overwrites.
bool SpoolWriter::write_line(const std::string& line) {
  if (!last_write_ && SteadyClock::now() < next_trial_) return false;
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::pwrite(descriptor_, line.data() + done, line.size() - done,
                                     static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      std::string error = system_error();
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) error += "; the last line is incomplete";
      last_write_ = Error{std::move(error)};
      next_trial_ = SteadyClock::now() + limits_.between_trials;
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(line.size());
  last_write_ = {};
  return true;
}

SpoolReader::SpoolReader(fs::path file) : file_(std::move(file)) {
  find_place();
}

void SpoolReader::find_place() {
  const fs::path older = older_part(file_), marks = mark_file(file_);
  const std::optional<Mark> mark = read_mark(marks);
  acknowledged_ = 0;
  in_older_ = id_of(older) != 0;
  if (mark && has_marked(file_, *mark)) {
    in_older_ = false;
    acknowledged_ = mark->end;
  } else if (mark && mark->sequence > 0 && has_marked(older, *mark)) {
    acknowledged_ = mark->end;
  } else if (fs::exists(marks) && (!mark || mark->end > 0)) {
    spdlog::warn("spool {}: invalid acknowledged offset; all records are sent again", file_.string());
  }
  file_id_ = id_of(in_older_ ? older : file_);
}

fs::path SpoolReader::part() {
  for (const fs::path& part : {file_, older_part(file_)}) {
    if (file_id_ == 0 || id_of(part) != file_id_) continue;
    in_older_ = part != file_;
    return part;
  }
  find_place();  // there was no file yet, or another reader has confirmed what this one was reading
  return in_older_ ? older_part(file_) : file_;
}

bool SpoolReader::next_part() {
  if (!in_older_) return false;
  in_older_ = false;
  acknowledged_ = 0;
  file_id_ = id_of(file_);
  return true;
}

std::string SpoolReader::read_lines(std::size_t max_bytes) {
  const fs::path file = part();
  const FileDescriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (in.get() < 0 || ::fstat(in.get(), &status) != 0) return "";
  if (status.st_ino != file_id_) return read_lines(max_bytes);  // rotated just now
  const auto unread = static_cast<std::size_t>(std::max<std::int64_t>(0, status.st_size - acknowledged_));
  std::string lines(std::min(max_bytes, unread), '\0');
  std::size_t size = 0;
  while (size < lines.size()) {
    const ssize_t got =
        ::pread(in.get(), lines.data() + size, lines.size() - size, acknowledged_ + static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("spool {}: cannot read: {}", file.string(), system_error());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  lines.resize(size);
  const std::size_t end = lines.rfind('\n') + 1;                        // npos + 1 is 0
  if (end == 0 && size == max_bytes) return read_lines(2 * max_bytes);  // the line exceeds the limit
  lines.resize(end);
  return lines;
}

SpoolReader::Batch SpoolReader::next(std::size_t max_records, std::size_t max_bytes) {
  std::string lines = read_lines(max_bytes);
  while (lines.empty() && next_part()) lines = read_lines(max_bytes);
  Batch batch;
  batch.end = acknowledged_;
  std::size_t begin = 0;
  while (begin < lines.size() && batch.records.size() < max_records) {
    const std::size_t end = lines.find('\n', begin) + 1;
    Result<Record> record = parse_line(std::string_view(lines).substr(begin, end - 1 - begin));
    std::int64_t sequence = 0;  // a damaged line has none
    if (!record.ok()) {
      spdlog::warn("spool {}: byte {}: skipping a damaged line: {}", file_.string(), batch.end, record.error());
    } else if (batch.records.empty() || same_origin(batch.records.front().header, record->header)) {
      sequence = record->header.sequence;
      batch.records.push_back(std::move(record).value());
    } else {
      break;
    }
    ++batch.lines;
    batch.sequence = sequence;
    batch.end += static_cast<std::int64_t>(end - begin);
    begin = end;
  }
  return batch;
}

void SpoolReader::acknowledge(const Batch& batch) {
  acknowledged_ = batch.end;
  if (batch.sequence == 0) return;  // nothing would tell the part, so at worst a line is skipped or sent once more
  marked_ = acknowledged_;
  sequence_ = batch.sequence;
  saved_ = false;
}

void SpoolReader::save_acknowledged() {
  if (saved_) return;
  try {
    write_file_atomically(mark_file(file_), fmt::format("{} {}\n", marked_, sequence_));
    saved_ = true;
  } catch (const Failure& failure) {
    spdlog::debug("{}", failure.what());
  }
}

std::int64_t SpoolReader::remaining() {
  const fs::path first = part();
  std::int64_t lines = 0;
  for (const fs::path& each : in_older_ ? std::vector<fs::path>{first, file_} : std::vector<fs::path>{first}) {
    std::ifstream in(each, std::ios::binary);
    if (each == first) in.seekg(acknowledged_);
    lines += std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
  }
  return lines;
}

}  // namespace babelring
