// The release: OPUS-MT-train, lib/dist.mk.
#include "nmt/interop/marian_files.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/interop/marian.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_text_bytes = 64 << 20;

/// Throws Failure unless the entry lies below the archive's folder and has a size that a model may have.
void check_entry(const ZipReader::Entry& entry, const std::string& archive) {
  const std::string name = printable(entry.name);
  const fs::path path = entry.name;
  const bool leaves = std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (leaves || path.is_absolute() || entry.name.find_first_of(std::string_view("\\\0", 2)) != std::string::npos) {
    fail("{}: the path {} leaves the archive's folder", archive, name);
  }
  if (entry.is_link) fail("{}: {} is a symbolic link, expected a file", archive, name);
  constexpr std::uint64_t spare = 1 << 20, factor = 100;  // zeros; weights shrink by less than a tenth
  if (entry.size > spare && entry.size / factor > entry.stored.size()) {
    fail("{}: {} has {} bytes of {} in the archive, expected at most {} times as many", archive, name, entry.size,
         entry.stored.size(), factor);
  }
}

/// A new file in `folder` that has no name, so that nothing is left of it.
FileDescriptor unnamed_file(const fs::path& folder) {
  std::string name = (folder / ".tmp-import-XXXXXX").string();
  FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) fail("import: {}: {}", folder.string(), std::strerror(errno));
  ::unlink(name.c_str());
  return file;
}

void write_all(const FileDescriptor& file, std::span<const std::byte> bytes, const fs::path& folder) {
  while (!bytes.empty()) {
    const ::ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("import: unpacking in {}: {}", folder.string(), std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

ModelFiles::ModelFiles(const fs::path& folder) : location_(folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) names_.push_back(entry.path().filename().string());
  }
  std::sort(names_.begin(), names_.end());
}

ModelFiles::ModelFiles(const fs::path& archive, std::shared_ptr<const MappedFile> bytes)
    : location_(archive), bytes_(std::move(bytes)) {
  zip_.emplace(bytes_->bytes(), archive.string());
  for (const ZipReader::Entry& entry : zip_->entries()) {
    check_entry(entry, archive.string());
    const fs::path path = entry.name;
    if (path.filename() == "decoder.yml" && (prefix_.empty() || path.parent_path() < prefix_)) {
      prefix_ = path.parent_path().string();
    }
  }
  if (!prefix_.empty()) prefix_ += "/";
  for (const ZipReader::Entry& entry : zip_->entries()) {
    if (!entry.name.starts_with(prefix_)) continue;
    const std::string name = entry.name.substr(prefix_.size());
    if (!name.empty() && name.find('/') == std::string::npos) names_.push_back(name);
  }
  std::sort(names_.begin(), names_.end());
}

bool ModelFiles::has(const std::string& name) const {
  return std::binary_search(names_.begin(), names_.end(), name);
}

std::vector<std::string> ModelFiles::ending_with(std::string_view suffix) const {
  std::vector<std::string> found;
  std::copy_if(names_.begin(), names_.end(), std::back_inserter(found),
               [&](const std::string& name) { return name.ends_with(suffix); });
  return found;
}

std::string ModelFiles::path(const std::string& name) const {
  return (location_ / (prefix_ + name)).string();
}

const ZipReader::Entry& ModelFiles::entry(const std::string& name) const {
  const ZipReader::Entry* entry = zip_->find(prefix_ + name);
  if (entry == nullptr) fail("{}: {} is missing", location_.string(), printable(name));
  return *entry;
}

std::string ModelFiles::text(const std::string& name) const {
  if (zip_) return zip_->text(entry(name), max_text_bytes);
  const fs::path file = location_ / name;
  if (!has(name)) fail("{}: {} is missing", location_.string(), printable(name));
  if (fs::file_size(file) > max_text_bytes) {
    fail("{}: found {} bytes, expected at most {}", file.string(), fs::file_size(file), max_text_bytes);
  }
  return read_file(file);
}

ModelFiles::Content ModelFiles::content(const std::string& name, const fs::path& scratch) const {
  if (!zip_) {
    const auto file = std::make_shared<MappedFile>(location_ / name);
    return {.owner = file, .bytes = file->bytes()};
  }
  const ZipReader::Entry& found = entry(name);
  if (!found.is_deflated) {
    zip_->read(found, [](auto) {});  // checks it
    release_pages(found.stored);
    return {.owner = bytes_, .bytes = found.stored};
  }
  const FileDescriptor unpacked = unnamed_file(scratch);
  zip_->read(found, [&](std::span<const std::byte> part) { write_all(unpacked, part, scratch); });
  const auto file = std::make_shared<MappedFile>(fmt::format("/proc/self/fd/{}", unpacked.get()));
  return {.owner = file, .bytes = file->bytes()};
}

namespace {

constexpr std::string_view best_suffix = ".best-perplexity.npz";

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

/// The model among files: the only one, or the best by perplexity if there are several.
std::string only_model(std::vector<std::string> names, const std::string& where) {
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".optimizer.npz"); });
  if (names.size() > 1) {
    std::vector<std::string> best;
    std::ranges::copy_if(names, std::back_inserter(best), [](const auto& name) { return name.ends_with(best_suffix); });
    if (best.size() == 1) return best.front();
  }
  if (names.size() == 1) return names.front();
  throw UsageFailure(fmt::format("import: {}: found {}, expected one model or one *{}; name the file", where,
                                 names.empty() ? "no .npz file" : fmt::format("{}", fmt::join(names, ", ")),
                                 best_suffix));
}

/// The vocabularies of a folder without a file that lists them.
std::vector<std::string> usual_vocabularies(const ModelFiles& files) {
  for (const auto& pair : {std::pair("vocab.spm", "vocab.spm"), {"source.vocab.yml", "target.vocab.yml"}}) {
    if (files.has(pair.first) && files.has(pair.second)) return {pair.first, pair.second};
  }
  if (const std::vector<std::string> found = files.ending_with("vocab.yml"); found.size() == 1) {
    return {found.front(), found.front()};
  }
  if (files.has("source.spm") && files.has("target.spm")) return {"source.spm", "target.spm"};
  return {};
}

}  // namespace

ModelParts parts_of(const ModelFiles& files, std::string model) {
  ModelParts parts{.model = std::move(model), .vocabularies = {}};
  std::string list = "decoder.yml";
  if (!files.has(list) && parts.model.empty()) parts.model = only_model(files.ending_with(".npz"), files.path(""));
  if (!files.has(list)) list = parts.model + ".decoder.yml";
  if (!files.has(list)) {
    parts.vocabularies = usual_vocabularies(files);
  } else {
    const YamlOptions options(files.text(list), files.path(list));
    std::vector<std::string> models;
    for (const std::string& path : options.list("models")) models.push_back(file_name(path));
    if (parts.model.empty()) parts.model = only_model(models, options.file() + ", models");
    for (const std::string& path : options.list("vocabs")) parts.vocabularies.push_back(file_name(path));
  }
  if (parts.vocabularies.size() != 2) {
    fail(
        "{}: found {} vocabularies, expected one of the source and one of the target: vocabs of decoder.yml, "
        "vocab.spm, "
        "or a *.vocab.yml",
        files.path(parts.model), parts.vocabularies.size());
  }
  return parts;
}

}  // namespace babelring
