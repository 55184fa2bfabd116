#include "nmt/decode/shortlist.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {
namespace {

constexpr const char *kind_key = "kind", *vocabulary_key = "vocabulary", *known_kind = "shortlist 1";
constexpr const char *frequent_name = "frequent", *ends_name = "ends", *pieces_name = "pieces";

using Ids = std::vector<std::int32_t>;

/// Sorts ids, each of which stays once.
void make_ascending(Ids& ids) {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

/// The ids with the largest counts; of equal counts the smaller ids.
Ids largest(std::vector<std::pair<std::int64_t, std::int32_t>> counted, std::int64_t count) {
  const auto kept = std::min(static_cast<std::size_t>(count), counted.size());
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::partial_sort(counted.begin(), counted.begin() + static_cast<std::ptrdiff_t>(kept), counted.end(), before);
  Ids ids;
  for (std::size_t i = 0; i < kept; ++i) ids.push_back(counted[i].second);
  return ids;
}

ConstTensor vector_of(const SafetensorsReader& reader, const char* name) {
  const ConstTensor tensor = reader.tensor(name);
  if (tensor.shape.rank() == 1 && tensor.dtype == DType::i32) return tensor;
  fail("{}: {} is {} {}, expected a vector of i32", reader.file().string(), name, name_of(tensor.dtype),
       tensor.shape.text());
}

/// Numbers from `low` to `high`.
Ids numbers_of(const SafetensorsReader& reader, const char* name, std::int64_t low, std::int64_t high) {
  const ConstTensor tensor = vector_of(reader, name);
  Ids numbers(tensor.as<std::int32_t>(), tensor.as<std::int32_t>() + tensor.shape[0]);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= low && numbers[i] <= high) continue;
    fail("{}: {}[{}] is {}, expected {} to {}", reader.file().string(), name, i, numbers[i], low, high);
  }
  return numbers;
}

}  // namespace

Shortlist::Shortlist(std::vector<Ids> pieces, Ids frequent, const Vocabulary& vocabulary)
    : pieces_(std::move(pieces)), frequent_(std::move(frequent)), usual_(frequent_), vocabulary_(vocabulary.digest()) {
  if (std::ssize(pieces_) != vocabulary.size()) {
    fail("shortlist: found lists of {} source pieces, expected {}, as the vocabulary has", pieces_.size(),
         vocabulary.size());
  }
  usual_.insert(usual_.end(), {unk_id, eos_id});
  for (std::int32_t id = first_free_id; id < vocabulary.size(); ++id) {
    if (byte_of(vocabulary.piece(id))) usual_.push_back(id);
  }
  make_ascending(usual_);
}

Shortlist Shortlist::load(const std::filesystem::path& file, const Vocabulary& vocabulary) {
  const SafetensorsReader reader(file);
  const auto text = [&](const char* key) { return get_text(reader.metadata(), key); };
  if (text(kind_key) != known_kind)
    fail("{}: found another safetensors file, expected one of `nmt shortlist`", file.string());
  if (text(vocabulary_key) != vocabulary.digest()) {
    throw UsageFailure(
        fmt::format("{}: is a shortlist of another vocabulary, {:.12}…, expected that of the model, {:.12}…",
                    file.string(), text(vocabulary_key), vocabulary.digest()));
  }
  const std::int64_t last = vocabulary.size() - 1;
  const Ids all = numbers_of(reader, pieces_name, 0, last);
  const Ids ends = numbers_of(reader, ends_name, 0, std::ssize(all));
  if (std::ssize(ends) != last + 1 || !std::ranges::is_sorted(ends) || ends.back() != std::ssize(all)) {
    fail("{}: ends are {} numbers, expected {} that rise to {}", file.string(), ends.size(), last + 1, all.size());
  }
  std::vector<Ids> pieces;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    pieces.emplace_back(all.begin() + (i == 0 ? 0 : ends[i - 1]), all.begin() + ends[i]);
  }
  return {std::move(pieces), numbers_of(reader, frequent_name, 0, last), vocabulary};
}

void Shortlist::save(const std::filesystem::path& file) const {
  Ids all, ends;
  for (const Ids& pieces : pieces_) {
    all.insert(all.end(), pieces.begin(), pieces.end());
    ends.push_back(static_cast<std::int32_t>(all.size()));
  }
  std::vector<NamedTensor> tensors;
  const std::pair<const char*, const Ids*> parts[] = {
      {pieces_name, &all}, {ends_name, &ends}, {frequent_name, &frequent_}};
  for (const auto& [name, numbers] : parts) {
    tensors.push_back({name, ConstTensor(numbers->data(), Shape{std::ssize(*numbers)}, DType::i32)});
  }
  std::vector<SafetensorsWriter::Layout> layout;
  for (const NamedTensor& one : tensors) layout.push_back({one.name, one.tensor.shape, one.tensor.dtype});
  SafetensorsWriter writer(file, std::move(layout), {{kind_key, known_kind}, {vocabulary_key, vocabulary_}});
  for (const NamedTensor& one : tensors) writer.add(one.tensor);
  writer.finish();
}

Ids Shortlist::list_of(std::span<const std::int32_t> source, const Constraints* constraints) const {
  Ids list = constraints == nullptr ? Ids() : constraints->forced_pieces();
  list.insert(list.end(), usual_.begin(), usual_.end());
  list.insert(list.end(), source.begin(), source.end());
  for (const std::int32_t piece : source) {
    const Ids& rendering = pieces_[static_cast<std::size_t>(piece)];
    list.insert(list.end(), rendering.begin(), rendering.end());
  }
  make_ascending(list);
  return list;
}

void ShortlistCounts::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target,
                          std::span<const AlignedPair> pairs) {
  for (const AlignedPair& pair : pairs) {
    const auto from = static_cast<std::uint64_t>(source[static_cast<std::size_t>(pair.source)]);
    const auto to = static_cast<std::uint64_t>(target[static_cast<std::size_t>(pair.target)]);
    ++aligned_[from << 32 | to];
  }
  for (const std::int32_t id : target) ++occurred_[id];
}

Shortlist ShortlistCounts::shortlist(std::int64_t best, std::int64_t frequent, const Vocabulary& vocabulary) const {
  using Counted = std::vector<std::pair<std::int64_t, std::int32_t>>;
  std::vector<Counted> by_source(static_cast<std::size_t>(vocabulary.size()));
  for (const auto& [pair, count] : aligned_) by_source[pair >> 32].emplace_back(count, static_cast<std::int32_t>(pair));
  std::vector<Ids> pieces;
  for (Counted& counted : by_source) pieces.push_back(largest(std::move(counted), best));
  Counted all;
  for (const auto& [id, count] : occurred_) all.emplace_back(count, id);
  return {std::move(pieces), largest(std::move(all), frequent), vocabulary};
}

}  // namespace babelring
