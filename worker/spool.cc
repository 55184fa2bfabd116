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
#include <charconv>
#include <fstream>
#include <system_error>
#include <utility>

#include "nmt/base/atomic_file.h"
#include "nmt/base/failure.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

std::string system_error() {
  return std::generic_category().message(errno);
}

/// The offset a file holds, if it is one that ends a line of the spool; else 0.
std::int64_t read_acknowledged(const fs::path& acknowledged_file, const fs::path& spool) {
  if (!fs::exists(acknowledged_file)) return 0;
  const std::string text = read_file(acknowledged_file);
  std::int64_t offset = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), offset);
  bool good = error == std::errc() && offset >= 0 && std::string_view(stop) == "\n";
  if (good && offset > 0) {
    std::ifstream in(spool, std::ios::binary);
    in.seekg(offset - 1);
    good = in.get() == '\n';
  }
  if (good) return offset;
  spdlog::warn("spool {}: the acknowledged offset does not fit; all its records are sent again", spool.string());
  return 0;
}

/// The record of a line, or nothing and a warning.
Result<Record> parse_line(std::string_view line) {
  const auto value = parse_json(line);
  if (!value.ok()) return Error{value.message()};
  if (!value->is_object()) return Error{"expected a JSON object"};
  UnknownMembers newer;  // of a worker that ran before this older one: the rest is sent all the same
  return record_from_json(value->get_object(), &newer);
}

bool same_origin(const RecordHeader& a, const RecordHeader& b) {
  return a.run == b.run && a.attempt == b.attempt && a.rank == b.rank && a.host == b.host;
}

}  // namespace

fs::path spool_path(const fs::path& folder, std::int64_t attempt, std::int64_t rank) {
  return folder / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.jsonl", rank);
}

SpoolWriter::SpoolWriter(const fs::path& file) : file_(file) {
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
    spdlog::warn("spool {}: dropping {} bytes of a line that was never finished", file_.string(), content.size() - end);
    if (::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
      fail("spool {}: cannot drop its torn last line: {}", file_.string(), system_error());
    }
  }
  size_ = static_cast<std::int64_t>(end);
  next_sequence_ = 1 + std::count(content.begin(), content.end(), '\n');
}

void SpoolWriter::append(const Record& record) {
  const std::string line = to_text(to_json(record)) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::pwrite(descriptor_, line.data() + done, line.size() - done,
                                     static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string reason = system_error();
      const bool torn = ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0;
      fail("spool {}: cannot write record {}: {}{}", file_.string(), next_sequence_, reason,
           torn ? "; its last line is torn" : "");
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(line.size());
  ++next_sequence_;
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
  if (end == 0 && lines.size() == max_bytes) return read_lines(2 * max_bytes);  // one line longer than the limit
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
      spdlog::warn("spool {}: byte {}: skipping a damaged line: {}", file_.string(), batch.end, record.message());
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
  write_file_atomically(acknowledged_file_, fmt::format("{}\n", acknowledged_));
  saved_ = acknowledged_;
}

std::int64_t SpoolReader::remaining() {
  std::ifstream in(file_, std::ios::binary);
  in.seekg(acknowledged_);
  return std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
}

}  // namespace babelring
