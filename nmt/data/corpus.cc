#include "nmt/data/corpus.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "nmt/data/text.h"

namespace babelring {

static_assert(std::endian::native == std::endian::little, "id files are little-endian and read in place");

namespace {

constexpr char head_magic[] = {'B', 'A', 'B', 'E', 'L', 'I', 'D', 'S'};
constexpr char tail_magic[] = {'I', 'D', 'S', ' ', ' ', 'E', 'N', 'D'};
constexpr std::uint32_t format_version = 1;
constexpr std::size_t flush_at_ids = 1 << 18;

struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t zero;
};

struct Tail {
  std::uint64_t sentences;
  std::uint64_t tokens;
  char magic[8];
};

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

}  // namespace

std::uint64_t pair_hash(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  const auto hash = [](std::span<const std::int32_t> ids, std::uint64_t seed) {
    const void* bytes = ids.data();
    return hash_text({static_cast<const char*>(bytes), ids.size_bytes()}, seed);
  };
  return hash(target, hash(source, 0));
}

IdFileWriter::IdFileWriter(const std::filesystem::path& file) : file_(std::make_unique<AtomicFile>(file)) {
  Head head{{}, format_version, 0};
  std::memcpy(head.magic, head_magic, sizeof head_magic);
  file_->write(&head, sizeof head);
}

IdFileWriter::~IdFileWriter() = default;

void IdFileWriter::add(std::span<const std::int32_t> ids) {
  pending_.insert(pending_.end(), ids.begin(), ids.end());
  offsets_.push_back(offsets_.back() + ids.size());
  if (pending_.size() >= flush_at_ids) flush();
}

void IdFileWriter::flush() {
  file_->write(pending_.data(), pending_.size() * sizeof(std::int32_t));
  pending_.clear();
}

void IdFileWriter::finish() {
  if (offsets_.back() % 2 == 1) pending_.push_back(0);
  flush();
  file_->write(offsets_.data(), offsets_.size() * sizeof(std::uint64_t));
  Tail tail{offsets_.size() - 1, offsets_.back(), {}};
  std::memcpy(tail.magic, tail_magic, sizeof tail_magic);
  file_->write(&tail, sizeof tail);
  file_->commit();
}

IdSequences::IdSequences(const std::filesystem::path& path, std::int64_t vocabulary_size)
    : file_(path), name_(path.string()), vocabulary_size_(vocabulary_size) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < sizeof(Head) + sizeof(std::uint64_t) + sizeof(Tail)) {
    fail("{}: {} bytes, too short for an id file", name_, bytes.size());
  }
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, head_magic, sizeof head_magic) != 0)
    fail("{}: not an id file (does not begin with BABELIDS)", name_);
  if (head.version != format_version) {
    fail("{}: id file version {}, expected version {}", name_, head.version, format_version);
  }
  Tail tail;
  std::memcpy(&tail, bytes.data() + bytes.size() - sizeof tail, sizeof tail);
  const std::size_t id_bytes = padded(tail.tokens * sizeof(std::int32_t));
  if (std::memcmp(tail.magic, tail_magic, sizeof tail_magic) != 0 || tail.tokens > bytes.size() ||
      tail.sentences > bytes.size() ||
      bytes.size() != sizeof(Head) + id_bytes + (tail.sentences + 1) * sizeof(std::uint64_t) + sizeof(Tail)) {
    fail("{}: truncated or damaged, its trailer does not match its size of {} bytes", name_, bytes.size());
  }
  // The mapping is page-aligned and both arrays start at multiples of 8 in it.
  const std::byte* first = bytes.data() + sizeof(Head);
  ids_ = {reinterpret_cast<const std::int32_t*>(first), tail.tokens};
  offsets_ = {reinterpret_cast<const std::uint64_t*>(first + id_bytes), tail.sentences + 1};
  bool ordered = offsets_.front() == 0 && offsets_.back() == tail.tokens;
  for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) ordered &= offsets_[i] <= offsets_[i + 1];
  if (!ordered) fail("{}: damaged, its sentence offsets are not in order from 0 to {}", name_, tail.tokens);
}

IdSequences::IdSequences(const std::vector<std::vector<std::int32_t>>& sentences) {
  owned_offsets_.reserve(sentences.size() + 1);
  owned_offsets_.push_back(0);
  for (const auto& sentence : sentences) {
    owned_ids_.insert(owned_ids_.end(), sentence.begin(), sentence.end());
    owned_offsets_.push_back(owned_ids_.size());
  }
  ids_ = owned_ids_;
  offsets_ = owned_offsets_;
}

void IdSequences::fail_overwritten(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  fail("{}: overwritten while in use: sentence {} spans ids {} to {} of {}", name_, i + 1, offsets_[at],
       offsets_[at + 1], ids_.size());
}

std::span<const std::int32_t> IdSequences::operator[](std::int64_t i) const {
  const auto count = static_cast<std::size_t>(length(i));
  const auto ids = ids_.subspan(offsets_[static_cast<std::size_t>(i)], count);
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary_size_) {
      fail("{}: damaged, sentence {} has id {}, expected 0 to {}", name_, i + 1, id, vocabulary_size_ - 1);
    }
  }
  return ids;
}

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

std::vector<CorpusPart> parts_of(const ManifestSet& set) {
  std::vector<CorpusPart> parts;
  std::int64_t first = 0;
  for (const ManifestCorpus& corpus : set.corpora) {
    parts.push_back({.name = corpus.name, .first = first, .last = first + corpus.sentences});
    first += corpus.sentences;
  }
  return parts;
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
  Corpus corpus(open_side(manifest, *set.source_ids, set.sentences, set.source_tokens, verify),
                open_side(manifest, set.target_ids, set.sentences, set.target_tokens, verify), set.digest());
  corpus.parts_ = parts_of(set);
  return corpus;
}

void Corpus::set_parts(const std::vector<std::pair<std::string, std::int64_t>>& sizes) {
  parts_.clear();
  std::int64_t first = 0;
  for (const auto& [name, sentences] : sizes) {
    parts_.push_back({.name = name, .first = first, .last = first + sentences});
    first += sentences;
  }
  if (first != sentences()) fail("corpus: parts of {} sentences, expected {}", first, sentences());
}

std::uint16_t Corpus::part_of(std::int64_t i) const {
  const auto behind = [](std::int64_t sentence, const CorpusPart& part) { return sentence < part.last; };
  return static_cast<std::uint16_t>(std::upper_bound(parts_.begin(), parts_.end(), i, behind) - parts_.begin());
}

void Corpus::open_links(const Manifest& manifest, const std::string& name, bool verify) {
  const ManifestSet& set = manifest.set(name);
  if (!set.links) {
    throw UsageFailure(fmt::format("{}: set '{}' has no alignments; expected a folder of `nmt prepare --align`",
                                   manifest.folder.string(), name));
  }
  const std::filesystem::path file = manifest.folder / set.links->name;
  check_file(manifest.folder, *set.links, verify);
  links_ = IdSequences(file, std::numeric_limits<std::int32_t>::max());
  if (links_.sentences() != sentences()) {
    fail("{}: {} sentences, expected {} by its manifest", file.string(), links_.sentences(), sentences());
  }
  digest_ = sha256_hex(digest_ + set.links->sha256);
}

std::span<const std::int32_t> Corpus::links(std::int64_t i) const {
  const std::span<const std::int32_t> links = links_[i];
  const std::int64_t sources = source_length(i), targets = target_length(i);
  if (links.size() % 2 != 0) fail("{}: sentence {}: {} numbers, expected pairs", links_.name(), i, links.size());
  for (std::size_t at = 0; at < links.size(); at += 2) {
    const std::int32_t source = links[at], target = links[at + 1];
    if (source < sources && target < targets && (at == 0 || target >= links[at - 1])) continue;
    fail("{}: sentence {} of {} and {} pieces has the pair {}-{}, expected pairs within them, sorted by target",
         links_.name(), i, sources, targets, source, target);
  }
  return links;
}

Corpus Corpus::from_memory(const std::vector<std::vector<std::int32_t>>& sources,
                           const std::vector<std::vector<std::int32_t>>& targets,
                           const std::vector<std::vector<std::int32_t>>& links) {
  if (sources.size() != targets.size()) {
    fail("corpus: {} sources, {} targets; expected equal numbers", sources.size(), targets.size());
  }
  IdSequences source(sources), target(targets);
  Sha256 digest;
  add_side(digest, source);
  add_side(digest, target);
  IdSequences aligned(links);
  if (!links.empty()) add_side(digest, aligned);
  std::string hex = digest.hex();
  Corpus corpus(std::move(source), std::move(target), std::move(hex));
  corpus.links_ = std::move(aligned);
  return corpus;
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
