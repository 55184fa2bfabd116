#include "cli/pair_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "base/failpoint.h"
#include "base/failure.h"
#include "base/log.h"

namespace babelring {

namespace fs = std::filesystem;

namespace {

/// Cuts what an interrupted run wrote after its last complete block. Creates the file if there is none.
void cut_to(const fs::path& file, std::int64_t bytes) {
  errno = 0;
  if (!std::ofstream(file, std::ios::app)) fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
  const auto found = static_cast<std::int64_t>(fs::file_size(file));
  if (found < bytes) fail("{}: found {} bytes, expected the {} of complete blocks", file.string(), found, bytes);
  if (found > bytes) fs::resize_file(file, static_cast<std::uintmax_t>(bytes));
}

}  // namespace

std::optional<PairProgress> PairFiles::stored() const {
  if (!fs::exists(progress())) return std::nullopt;
  const auto value = parse_json(read_file(progress()));
  const json::object* object = value.ok() ? value->if_object() : nullptr;
  const json::object* made_of = object == nullptr ? nullptr : get_object(*object, "made_of");
  if (made_of == nullptr) fail("{}: found other text, expected progress of nmt augment", progress().string());
  PairProgress found{.source_bytes = get_integer(*object, "source_bytes"),
                     .target_bytes = get_integer(*object, "target_bytes"),
                     .complete = get_flag(*object, "complete"),
                     .made_of = *made_of};
  for (const auto& [name, count] : AugmentCounts::fields()) found.counts.*count = get_integer(*object, name);
  return found;
}

PairProgress PairFiles::resume(const json::object& made_of) const {
  PairProgress progress = stored().value_or(PairProgress{.made_of = made_of});
  require_same(progress.made_of, made_of, this->progress());
  cut_to(source(), progress.source_bytes);
  cut_to(target(), progress.target_bytes);
  return progress;
}

void PairFiles::append(std::string_view source_lines, std::string_view target_lines) const {
  for (const auto& [file, lines] : {std::pair(source(), source_lines), std::pair(target(), target_lines)}) {
    errno = 0;
    std::ofstream stream(file, std::ios::app);
    stream << lines;
    stream.close();
    if (!stream) fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
    failpoint("augment.file");
  }
}

void PairFiles::store(PairProgress& progress) const {
  sync_file(source());
  sync_file(target());
  progress.source_bytes = static_cast<std::int64_t>(fs::file_size(source()));
  progress.target_bytes = static_cast<std::int64_t>(fs::file_size(target()));
  json::object object{{"complete", progress.complete},
                      {"source_bytes", progress.source_bytes},
                      {"target_bytes", progress.target_bytes}};
  for (const auto& [name, count] : AugmentCounts::fields()) object[name] = progress.counts.*count;
  object["made_of"] = progress.made_of;
  write_file_atomically(this->progress(), to_text(object) + "\n");
  failpoint("augment.block");
}

void PairFiles::remove() const {
  for (const fs::path& file : {source(), target(), progress()}) fs::remove(file);
}

void require_same(const json::object& found, const json::object& wanted, const fs::path& file) {
  std::set<std::string> names;
  for (const json::object* object : {&found, &wanted}) {
    for (const auto& [name, value] : *object) names.emplace(name);
  }
  const auto text = [](const json::object& object, const std::string& name) {
    const json::value* value = object.if_contains(name);
    return value == nullptr ? std::string("none") : printable(to_text(*value));
  };
  for (const std::string& name : names) {
    const std::string made = text(found, name), asked = text(wanted, name);
    if (made == asked) continue;
    throw UsageFailure(fmt::format("{}: {} is {:.80}, expected {:.80} as for the lines that are made", file.string(),
                                   name, asked, made));
  }
}

PairLock::PairLock(const std::string& prefix, bool wait) : file_(prefix + ".augment.lock") {
  descriptor_ = FileDescriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!descriptor_) fail("{}: cannot be written: {}", file_.string(), std::strerror(errno));
  if (flock(descriptor_.get(), wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) fail("{}: another process writes these files", file_.string());
  fail("{}: cannot be locked: {}", file_.string(), std::strerror(errno));
}

PairLock::~PairLock() {
  std::error_code absent;
  fs::remove(file_, absent);
}

}  // namespace babelring
