#include "base/records/spool_reader.h"

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
#include <system_error>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t seek_bytes = std::size_t{1} << 20;  // read at once by seek()

bool same_origin(const RecordHeader& a, const RecordHeader& b) {
  return a.run == b.run && a.attempt == b.attempt && a.rank == b.rank && a.host == b.host;
}

fs::path mark_file(const fs::path& spool) {
  return fs::path(spool).replace_extension(".ack");
}

/// Whether the marked line is in this part. Without a sequence only its end tells.
bool has_marked(const fs::path& part, const SpoolMark& mark) {
  const std::optional<std::int64_t> found = spool_sequence_before(part, mark.end);
  return found && (mark.sequence == 0 || *found == mark.sequence);
}

/// The number N of a name PREFIX N SUFFIX.
std::optional<std::int64_t> number_in_name(const fs::path& path, std::string_view prefix, std::string_view suffix) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() < prefix.size() + suffix.size()) {
    return std::nullopt;
  }
  return parse_number<std::int64_t>(
      std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

}  // namespace

fs::path spool_path(const fs::path& folder, std::int64_t attempt, std::int64_t rank) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.jsonl", rank);
}

std::vector<SpoolFile> list_spools(const fs::path& folder) {
  std::vector<SpoolFile> spools;
  std::error_code absent;
  for (const auto& attempts : fs::directory_iterator(folder, absent)) {
    const auto attempt = number_in_name(attempts.path(), "attempt-", "");
    if (!attempt) continue;
    for (const auto& entry : fs::directory_iterator(attempts.path(), absent)) {
      const auto rank = number_in_name(entry.path(), "rank-", ".jsonl");
      if (rank) spools.push_back({*attempt, *rank, entry.path()});
    }
  }
  std::ranges::sort(spools, {}, [](const SpoolFile& place) { return std::pair(place.attempt, place.rank); });
  return spools;
}

bool has_writer(const fs::path& spool) {
  const FileDescriptor file(::open(spool.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() >= 0 && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0;
}

Result<Record> parse_spool_line(std::string_view line) {
  const auto value = parse_json(line);
  if (!value.ok()) return Error{value.error()};
  if (!value->is_object()) return Error{"expected a JSON object"};
  UnknownMembers newer;  // a newer worker may have written the line; send the known members
  return record_from_json(value->get_object(), &newer);
}

std::optional<std::int64_t> spool_sequence_before(const fs::path& file, std::int64_t end) {
  std::ifstream in(file, std::ios::binary);
  for (std::int64_t bytes = 1 << 16; end > 0; bytes *= 4) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - bytes);
    std::string text(static_cast<std::size_t>(end - begin), '\0');
    in.seekg(begin);
    if (!in.read(text.data(), end - begin) || text.back() != '\n') return std::nullopt;
    text.pop_back();
    const std::size_t before = text.rfind('\n');
    if (before == std::string::npos && begin > 0) continue;
    const Result<Record> record = parse_spool_line(std::string_view(text).substr(before + 1));  // npos + 1 is 0
    return record ? record->header.sequence : 0;
  }
  return std::nullopt;
}

std::int64_t last_spool_sequence(const fs::path& spool) {
  const std::vector<fs::path> parts = spool_parts(spool);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {  // the newer part may be empty
    std::error_code absent;
    const auto bytes = fs::file_size(*part, absent);
    if (absent || bytes == 0) continue;
    std::ifstream in(*part, std::ios::binary);
    const std::int64_t tail = std::min<std::int64_t>(static_cast<std::int64_t>(bytes), 1 << 16);
    std::string text(static_cast<std::size_t>(tail), '\0');
    in.seekg(static_cast<std::int64_t>(bytes) - tail);
    if (!in.read(text.data(), tail)) return 0;
    const std::size_t end = text.rfind('\n');  // the last line may be torn
    if (end == std::string::npos) return 0;
    return spool_sequence_before(*part, static_cast<std::int64_t>(bytes) - tail + static_cast<std::int64_t>(end) + 1)
        .value_or(0);
  }
  return 0;
}

std::optional<SpoolMark> read_spool_mark(const fs::path& spool) {
  std::ifstream in(mark_file(spool));
  std::string line;
  if (!std::getline(in, line) || in.eof()) return std::nullopt;
  const std::size_t space = std::min(line.find(' '), line.size());
  const auto end = parse_number<std::int64_t>(line.substr(0, space));
  const auto sequence = parse_number<std::int64_t>(space < line.size() ? line.substr(space + 1) : "0");
  if (!end || *end < 0 || !sequence) return std::nullopt;
  return SpoolMark{*end, *sequence};
}

std::uint64_t inode_of(const fs::path& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

SpoolReader::SpoolReader(fs::path file) : file_(std::move(file)) {
  find_place();
}

void SpoolReader::find_place() {
  const fs::path older = older_part(file_), marks = mark_file(file_);
  const std::optional<SpoolMark> mark = read_spool_mark(file_);
  acknowledged_ = 0;
  in_older_ = inode_of(older) != 0;
  if (mark && has_marked(file_, *mark)) {
    in_older_ = false;
    acknowledged_ = mark->end;
  } else if (mark && mark->sequence > 0 && has_marked(older, *mark)) {
    acknowledged_ = mark->end;
  } else if (fs::exists(marks) && (!mark || mark->end > 0)) {
    spdlog::warn("spool {}: invalid acknowledged offset; all records are sent again", file_.string());
  }
  file_id_ = inode_of(in_older_ ? older : file_);
}

fs::path SpoolReader::part() {
  for (const fs::path& part : {file_, older_part(file_)}) {
    if (file_id_ == 0 || inode_of(part) != file_id_) continue;
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
  file_id_ = inode_of(file_);
  return true;
}

std::string SpoolReader::read_lines(std::size_t max_bytes) {
  const fs::path file = part();
  const FileDescriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (in.get() < 0 || ::fstat(in.get(), &status) != 0) return "";
  if (status.st_ino != file_id_) return read_lines(max_bytes);  // rotated just now
  const auto unread = static_cast<std::size_t>(std::max<std::int64_t>(0, status.st_size - acknowledged_));
  std::string lines(std::min(max_bytes, unread), '\0');
  std::size_t size = 0;
  while (size < lines.size()) {
    const ssize_t got =
        ::pread(in.get(), lines.data() + size, lines.size() - size, acknowledged_ + static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("spool {}: cannot read: {}", file.string(), std::generic_category().message(errno));
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
    Result<Record> record = parse_spool_line(std::string_view(lines).substr(begin, end - 1 - begin));
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

std::int64_t SpoolReader::seek(std::int64_t sequence) {
  in_older_ = inode_of(older_part(file_)) != 0;
  file_id_ = inode_of(in_older_ ? older_part(file_) : file_);
  marked_ = sequence_ = 0;
  saved_ = false;
  std::int64_t found = seek_in_part(sequence);
  while (found == 0 && next_part()) found = seek_in_part(sequence);
  return found > 0 ? found : std::max(sequence, last_spool_sequence(file_)) + 1;
}

std::int64_t SpoolReader::seek_in_part(std::int64_t sequence) {
  acknowledged_ = 0;
  for (std::string lines = read_lines(seek_bytes); !lines.empty(); lines = read_lines(seek_bytes)) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin) + 1;
      const Result<Record> record = parse_spool_line(std::string_view(lines).substr(begin, end - 1 - begin));
      if (record && record->header.sequence > sequence) return record->header.sequence;
      acknowledged_ += static_cast<std::int64_t>(end - begin);
      begin = end;
      if (!record) continue;  // a damaged line has no sequence to mark
      marked_ = acknowledged_;
      sequence_ = record->header.sequence;
    }
  }
  return 0;
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
