#include "nmt/data/corpus.h"

#include <utility>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/failure.h"

namespace babelring {

namespace {

IdSequences open_side(const Manifest& manifest, const ManifestFile& file, std::int64_t sentences, std::int64_t tokens,
                      bool verify) {
  const std::filesystem::path& folder = manifest.folder;
  check_file(folder, file, verify);
  IdSequences side(folder / file.name, manifest.vocabulary_size);
  if (side.sentences() != sentences || side.tokens() != tokens) {
    fail("{}: {} sentences of {} tokens, expected {} of {} by its manifest", (folder / file.name).string(),
         side.sentences(), side.tokens(), sentences, tokens);
  }
  return side;
}

std::vector<std::string> read_lines(const std::filesystem::path& folder, const ManifestFile& file,
                                    std::int64_t sentences, bool verify) {
  check_file(folder, file, verify);
  const std::string text = read_file(folder / file.name);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (static_cast<std::int64_t>(lines.size()) != sentences) {
    fail("{}: {} lines, expected {} by its manifest", (folder / file.name).string(), lines.size(), sentences);
  }
  return lines;
}

void add_side(Sha256& digest, const IdSequences& side) {
  digest.add(side.offsets().data(), side.offsets().size_bytes()).add(side.ids().data(), side.ids().size_bytes());
}

}  // namespace

Corpus::Corpus(IdSequences source, IdSequences target, std::string digest)
    : source_(std::move(source)), target_(std::move(target)), digest_(std::move(digest)) {}

Corpus Corpus::open(const std::filesystem::path& folder, const std::string& name, bool verify) {
  return open(load_manifest(folder), name, verify);
}

Corpus Corpus::open(const Manifest& manifest, const std::string& name, bool verify) {
  const ManifestSet& set = manifest.set(name);
  if (!set.source_ids) {
    fail("{}: set '{}' has no source side, expected text that nmt prepare has written", manifest.folder.string(), name);
  }
  return Corpus(open_side(manifest, *set.source_ids, set.sentences, set.source_tokens, verify),
                open_side(manifest, set.target_ids, set.sentences, set.target_tokens, verify), set.digest());
}

Corpus Corpus::from_memory(const std::vector<std::vector<std::int32_t>>& sources,
                           const std::vector<std::vector<std::int32_t>>& targets) {
  if (sources.size() != targets.size()) {
    fail("corpus: {} sources, {} targets; expected equal numbers", sources.size(), targets.size());
  }
  IdSequences source(sources), target(targets);
  Sha256 digest;
  add_side(digest, source);
  add_side(digest, target);
  std::string hex = digest.hex();
  return Corpus(std::move(source), std::move(target), std::move(hex));
}

ParallelText ParallelText::open(const std::filesystem::path& folder, const std::string& name, bool verify) {
  return open(load_manifest(folder), name, verify);
}

ParallelText ParallelText::open(const Manifest& manifest, const std::string& name, bool verify) {
  const std::filesystem::path& folder = manifest.folder;
  const ManifestSet& set = manifest.set(name);
  if (!set.source_text || !set.target_text) {
    fail("{}: set '{}' was stored without its text; only held-out sets keep it", folder.string(), name);
  }
  return {read_lines(folder, *set.source_text, set.sentences, verify),
          read_lines(folder, *set.target_text, set.sentences, verify)};
}

}  // namespace babelring
