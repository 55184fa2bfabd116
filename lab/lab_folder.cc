#include "lab/lab_folder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The rank that a file name states: N of "-rank-N"; 0 if there is none.
std::int64_t rank_of(const std::string& name) {
  constexpr std::string_view mark = "-rank-";
  const std::size_t place = name.find(mark);
  std::int64_t rank = 0;
  if (place == std::string::npos) return rank;
  for (std::size_t i = place + mark.size(); i < name.size() && name[i] >= '0' && name[i] <= '9' && rank < 1'000'000;
       ++i) {
    rank = 10 * rank + (name[i] - '0');
  }
  return rank;
}

struct Files {
  std::string stem;
  fs::file_time_type newest{};
  std::vector<fs::path> paths;
};

/// The files of a kind and rank, those with one stem together, newest first.
std::vector<Files> files_of(const fs::path& folder, const std::string& kind, std::int64_t rank) {
  std::map<std::string, Files> by_stem;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kind + '-') || rank_of(name) != rank) continue;
    const std::string stem = name.substr(0, name.find('.'));
    Files& files = by_stem[stem];
    files.stem = stem;
    files.newest = std::max(files.newest, entry.last_write_time());
    files.paths.push_back(entry.path());
  }
  std::vector<Files> sorted;
  sorted.reserve(by_stem.size());
  for (auto& [stem, files] : by_stem) sorted.push_back(std::move(files));
  std::sort(sorted.begin(), sorted.end(),
            [](const Files& a, const Files& b) { return std::tie(a.newest, a.stem) > std::tie(b.newest, b.stem); });
  return sorted;
}

/// Removes a file that was not renamed into place.
class Unfinished {
 public:
  explicit Unfinished(fs::path file) : file_(std::move(file)) {}
  ~Unfinished() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const fs::path& path() const { return file_; }

 private:
  fs::path file_;
};

}  // namespace

LabFolder::LabFolder(const fs::path& folder, int keep, std::int64_t rank, RecordSink& records)
    : folder_(fs::absolute(folder)), keep_(keep), rank_(rank), records_(records) {}

void LabFolder::check(const Artifact& artifact) const {
  const auto& kinds = artifact_kinds;
  if (std::find(kinds.begin(), kinds.end(), artifact.kind) == kinds.end()) {
    fail("artifact {}: expected kind {}, found '{}'", artifact.name, fmt::join(kinds, ", "), artifact.kind);
  }
  const bool fits = artifact.name.starts_with(artifact.kind + '-') && artifact.name.find('/') == std::string::npos;
  if (!fits || rank_of(artifact.name) != rank_) {
    fail("artifact of rank {}: expected a file name that begins with '{}-'{}, found '{}'", rank_, artifact.kind,
         rank_ == 0 ? "" : fmt::format(" and contains '-rank-{}'", rank_), artifact.name);
  }
}

void LabFolder::write(const Artifact& artifact, std::string_view bytes) {
  write(artifact, [bytes](const fs::path& file) { write_file_atomically(file, bytes); });
}

void LabFolder::write(const Artifact& artifact, const std::function<void(const fs::path&)>& write_file) {
  check(artifact);
  try {
    fs::create_directories(folder_);
    const Unfinished file(folder_ / (".tmp-" + artifact.name));
    fs::remove(file.path());
    write_file(file.path());
    fs::rename(file.path(), folder_ / artifact.name);
    finish(artifact);
  } catch (const std::exception& failure) {
    spdlog::warn("{} of update {} is not written: {}", artifact.kind, artifact.update, failure.what());
  }
}

void LabFolder::add(const Artifact& artifact) {
  check(artifact);
  try {
    finish(artifact);
  } catch (const std::exception& failure) {
    spdlog::warn("{} of update {} is not reported: {}", artifact.kind, artifact.update, failure.what());
  }
}

void LabFolder::finish(const Artifact& artifact) {
  sync_folder(folder_);
  report(artifact);
  remove_old(artifact.kind);
}

void LabFolder::report(const Artifact& artifact) {
  const fs::path file = folder_ / artifact.name;
  ArtifactRecord record{.update = artifact.update, .name = artifact.name, .artifact = artifact.kind};
  record.folder = folder_;
  record.size = static_cast<std::int64_t>(fs::file_size(file));
  record.sha256 = sha256_file(file);
  if (to_text(artifact.content).size() <= max_artifact_content_bytes) record.content = artifact.content;
  records_.write(std::move(record));
}

void LabFolder::remove_old(const std::string& kind) {
  const std::vector<Files> files = files_of(folder_, kind, rank_);
  for (std::size_t i = static_cast<std::size_t>(keep_); i < files.size(); ++i) {
    for (const fs::path& file : files[i].paths) remove(kind, file);
  }
}

void LabFolder::remove(const std::string& kind, const fs::path& file) {
  if (!fs::remove(file)) return;
  ArtifactRecord record{.name = file.filename(), .artifact = kind};
  record.folder = folder_;
  record.removed = true;
  records_.write(std::move(record));
}

}  // namespace babelring
