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
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/parse_number.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string system_error() {
  return std::generic_category().message(errno);
}

/// Reads the acknowledged offset. Returns 0 unless it is the end of a line in the spool.
std::int64_t read_acknowledged(const fs::path& acknowledged_file, const fs::path& spool) {
  if (!fs::exists(acknowledged_file)) return 0;
  const std::string text = read_file(acknowledged_file);
  const bool line = text.ends_with('\n');
  const std::int64_t offset = line ? parse_number<std::int64_t>(text.substr(0, text.size() - 1)).value_or(-1) : -1;
  bool good = offset >= 0;
  if (good && offset > 0) {
    std::ifstream in(spool, std::ios::binary);
    in.seekg(offset - 1);
    good = in.get() == '\n';
  }
  if (good) return offset;
  spdlog::warn("spool {}: invalid acknowledged offset; all records are sent again", spool.string());
  return 0;
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

}  // namespace

fs::path spool_path(const fs::path& folder, std::int64_t attempt, std::int64_t rank) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.jsonl", rank);
}

SpoolWriter::SpoolWriter(const fs::path& file, std::size_t max_kept_bytes, std::chrono::milliseconds between_trials)
    : file_(file), max_kept_bytes_(max_kept_bytes), between_trials_(between_trials) {
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
  next_sequence_ = 1 + std::count(content.begin(), content.end(), '\n');
  if (end < 2) return;
  const std::size_t before = content.rfind('\n', end - 2);  // npos + 1 is 0
  const Result<Record> last = parse_line(std::string_view(content).substr(before + 1, end - before - 2));
  // Records that were sent from memory while the disk was full are not in the file, so count lines and look at the
  // last.
  if (last.ok()) next_sequence_ = std::max(next_sequence_, last->header.sequence + 1);
}

void SpoolWriter::append(const Record& record) {
  try_kept();
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
  return kept_bytes_ + bytes <= (frequent ? max_kept_bytes_ / 4 * 3 : max_kept_bytes_);
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

/// Returns false if the write fails, or if one failed less than between_trials_ ago. The file then ends with the last
/// complete line, or with an incomplete line that the next write overwrites.
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
      next_trial_ = SteadyClock::now() + between_trials_;
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(line.size());
  last_write_ = {};
  return true;
}

SpoolReader::SpoolReader(fs::path file)
    : file_(std::move(file)), acknowledged_file_(fs::path(file_).replace_extension(".ack")) {
  acknowledged_ = saved_ = read_acknowledged(acknowledged_file_, file_);
}

std::string SpoolReader::read_lines(std::size_t max_bytes) {
  std::ifstream in(file_, std::ios::binary);
  if (!in) return "";
  in.seekg(acknowledged_);
  std::string lines(max_bytes, '\0');
  in.read(lines.data(), static_cast<std::streamsize>(lines.size()));
  if (in.bad()) fail("spool {}: cannot read: {}", file_.string(), system_error());
  lines.resize(static_cast<std::size_t>(in.gcount()));
  const std::size_t end = lines.rfind('\n') + 1;
  if (end == 0 && lines.size() == max_bytes) return read_lines(2 * max_bytes);  // the line exceeds the limit
  lines.resize(end);
  return lines;
}

SpoolReader::Batch SpoolReader::next(std::size_t max_records, std::size_t max_bytes) {
  Batch batch;
  batch.end = acknowledged_;
  const std::string lines = read_lines(max_bytes);
  std::size_t begin = 0;
  while (begin < lines.size() && batch.records.size() < max_records) {
    const std::size_t end = lines.find('\n', begin) + 1;
    Result<Record> record = parse_line(std::string_view(lines).substr(begin, end - 1 - begin));
    if (!record.ok()) {
      spdlog::warn("spool {}: byte {}: skipping a damaged line: {}", file_.string(), batch.end, record.error());
    } else if (batch.records.empty() || same_origin(batch.records.front().header, record->header)) {
      batch.records.push_back(std::move(record).value());
    } else {
      break;
    }
    ++batch.lines;
    batch.end += static_cast<std::int64_t>(end - begin);
    begin = end;
  }
  return batch;
}

void SpoolReader::acknowledge(const Batch& batch) {
  acknowledged_ = batch.end;
}

void SpoolReader::save_acknowledged() {
  if (saved_ == acknowledged_) return;
  try {
    write_file_atomically(acknowledged_file_, fmt::format("{}\n", acknowledged_));
    saved_ = acknowledged_;
  } catch (const Failure& failure) {
    spdlog::debug("{}", failure.what());
  }
}

std::int64_t SpoolReader::remaining() {
  std::ifstream in(file_, std::ios::binary);
  in.seekg(acknowledged_);
  return std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
}

}  // namespace babelring
