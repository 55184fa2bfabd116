#include "nmt/data/sequence_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/data/assignment.h"

namespace babelring {

SequenceRange part_of_range(const SequenceRange& range, std::int64_t part, std::int64_t parts) {
  return {range.first + range.count() * part / parts, range.first + range.count() * (part + 1) / parts};
}

PackedBatch pack_sequences(const SequenceRange& range, std::int64_t length, const ReadSequence& read) {
  const std::int64_t targets = length - 1;
  PackedBatch batch;
  batch.first_target_row = range.first * targets;
  batch.target_in.ids.reserve(static_cast<std::size_t>(range.count() * targets));
  batch.target_out.reserve(static_cast<std::size_t>(range.count() * targets));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::int64_t sequence = range.first; sequence < range.last; ++sequence) {
    read(sequence, tokens);
    batch.target_in.ids.insert(batch.target_in.ids.end(), tokens.begin(), tokens.end() - 1);
    batch.target_out.insert(batch.target_out.end(), tokens.begin() + 1, tokens.end());
    batch.source.offsets.push_back(0);
    batch.target_in.offsets.push_back(static_cast<std::int32_t>(batch.target_in.tokens()));
  }
  return batch;
}

namespace {

/// The parts into which an update's sequences are divided: units, or a part for each rank.
std::vector<SequenceRange> parts_of(const SequenceUpdate& update, const RankPart& part) {
  std::vector<SequenceRange> ranges;
  if (part.assignment == nullptr || part.units > 0) {
    const std::int64_t parts = part.units > 0 ? part.units : part.world;
    for (std::int64_t i = 0; i < parts; ++i) ranges.push_back(part_of_range({0, update.sequences}, i, parts));
    return ranges;
  }
  const auto bounds = part.assignment->bounds(update.update);
  const auto begin = [&](std::size_t rank) {
    return std::llround((*bounds)[rank] * static_cast<double>(update.sequences));
  };
  for (std::size_t rank = 0; rank + 1 < bounds->size(); ++rank) ranges.push_back({begin(rank), begin(rank + 1)});
  return ranges;
}

}  // namespace

UpdateBatches make_sequence_batches(const SequenceUpdate& update, const RankPart& part, const ReadSequence& read) {
  const std::int64_t targets = update.length - 1;
  const std::vector<SequenceRange> parts = parts_of(update, part);
  UpdateBatches batches{.update = update.update,
                        .epoch = 0,
                        .global_sentences = update.sequences,
                        .global_target_tokens = update.sequences * targets};
  assign_units(batches, part);
  const std::int64_t largest_share = std::ranges::max(parts, {}, &SequenceRange::count).count();
  const std::int64_t fitting = part.micro_batch_tokens > 0
                                   ? std::max<std::int64_t>(1, part.micro_batch_tokens / targets)
                                   : std::max<std::int64_t>(1, largest_share);
  const std::int64_t micro_batches = std::max<std::int64_t>(1, (largest_share + fitting - 1) / fitting);
  for (const int computed : part.units > 0 ? batches.computed : std::vector<int>{part.rank}) {
    const SequenceRange& own = parts[static_cast<std::size_t>(computed)];
    batches.sentences += own.count();
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      batches.micro_batches.push_back(pack_sequences(part_of_range(own, i, micro_batches), update.length, read));
    }
  }
  batches.target_tokens = batches.sentences * targets;
  return batches;
}

void check_sequence_sizes(std::int64_t sequences_per_update, std::int64_t length) {
  if (sequences_per_update >= 1 && length >= 2) return;
  throw UsageFailure(fmt::format("sequences: {} an update of {} tokens, expected at least 1 of at least 2",
                                 sequences_per_update, length));
}

namespace {

const ManifestSet& require_sequences(const Manifest& manifest, const std::string& name) {
  const ManifestSet& set = manifest.set(name);
  if (!set.source_ids && set.sentences > 0) return set;
  throw UsageFailure(fmt::format("data.folder: set '{}' of {} holds {} {}, expected sequences of `nmt gssm data`", name,
                                 manifest.folder.string(), set.sentences,
                                 set.source_ids ? "sentence pairs" : "sequences"));
}

/// The entropy of set `name` by the manifest: that of the test set is stored with it.
double stored_entropy(const Manifest& manifest, const std::string& name) {
  const json::value* entropy = manifest.options.if_contains("entropy");
  if (name != "test" || entropy == nullptr || !entropy->is_object()) return std::numeric_limits<double>::quiet_NaN();
  const json::value* nats = entropy->get_object().if_contains("nats");
  return nats != nullptr && nats->is_number() ? nats->to_number<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

SequenceFile::SequenceFile(const Manifest& manifest, const std::string& set)
    : file_((manifest.folder / require_sequences(manifest, set).target_ids.name).string()), name_(set) {
  const ManifestSet& listed = manifest.set(set);
  check_file(manifest.folder, listed.target_ids, false);
  digest_ = listed.digest();
  ids_ = IdSequences(file_, manifest.vocabulary_size);
  if (ids_.sentences() != listed.sentences) {
    fail("{}: {} sequences, expected {} by its manifest", file_, ids_.sentences(), listed.sentences);
  }
  length_ = ids_.length(0);
  if (length_ < 2) fail("{}: sequences of {} tokens, expected at least 2", file_, length_);
}

void SequenceFile::read(std::int64_t i, std::span<std::int32_t> tokens) const {
  const std::span<const std::int32_t> ids = ids_[i];
  if (std::ssize(ids) != length_)
    fail("{}: sequence {} has {} tokens, the first has {}", file_, i, ids.size(), length_);
  std::ranges::copy(ids, tokens.begin());
}

SequenceSource::SequenceSource(SequenceFile file, std::int64_t sequences_per_update, std::uint64_t seed)
    : file_(std::move(file)), sequences_per_update_(sequences_per_update), seed_(seed) {
  check_sequence_sizes(sequences_per_update, file_.length());
}

std::shared_ptr<const SequenceSource::Epoch> SequenceSource::epoch(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  if (last_used_ != nullptr && last_used_->number == number) return last_used_;
  auto made =
      std::make_shared<Epoch>(Epoch{number, std::vector<std::int64_t>(static_cast<std::size_t>(file_.sequences()))});
  std::iota(made->order.begin(), made->order.end(), 0);
  Random random(derive_seed(seed_, static_cast<std::uint64_t>(number)));
  shuffle(std::span(made->order), random);
  return last_used_ = std::move(made);
}

UpdateBatches SequenceSource::make(std::int64_t update, const DataPosition& start, const RankPart& part) const {
  const std::int64_t all = file_.sequences();
  if (start.epoch < 0 || start.sentences < 0 || start.sentences >= all) {
    fail("sequences: epoch {}, {} sequences done; expected an epoch from 0 and fewer than {} sequences", start.epoch,
         start.sentences, all);
  }
  const auto order = epoch(start.epoch);
  const std::int64_t end = std::min(all, start.sentences + sequences_per_update_);
  const SequenceUpdate size{.update = update, .sequences = end - start.sentences, .length = file_.length()};
  UpdateBatches batches = make_sequence_batches(size, part, [&](std::int64_t sequence, std::span<std::int32_t> tokens) {
    file_.read(order->order[static_cast<std::size_t>(start.sentences + sequence)], tokens);
  });
  batches.next = after(start);
  batches.epoch = static_cast<double>(start.epoch) + static_cast<double>(end) / static_cast<double>(all);
  return batches;
}

DataPosition SequenceSource::after(const DataPosition& start) const {
  const std::int64_t end = start.sentences + sequences_per_update_;
  return end < file_.sequences() ? DataPosition{start.epoch, end} : DataPosition{start.epoch + 1, 0};
}

DataPosition SequenceSource::resume(DataOrder, const std::optional<DataPosition>& position, double epochs) {
  const std::int64_t all = file_.sequences();
  // If changed data was accepted, it may have fewer sequences than the position needs.
  if (position && position->sentences < all) return *position;
  constexpr double tolerance = 1e-6;  // in updates; absorbs rounding of `epochs`
  const auto updates = static_cast<double>(updates_per_epoch());
  const auto number = static_cast<std::int64_t>(epochs + tolerance / updates);
  const double part = epochs - static_cast<double>(number);
  const auto done = static_cast<std::int64_t>(
      std::ceil(part * static_cast<double>(all) / static_cast<double>(sequences_per_update_) - tolerance));
  const std::int64_t sequences_done = std::max<std::int64_t>(0, done) * sequences_per_update_;
  return sequences_done < all ? DataPosition{number, sequences_done} : DataPosition{number + 1, 0};
}

std::int64_t SequenceSource::updates_per_epoch() const {
  return (file_.sequences() + sequences_per_update_ - 1) / sequences_per_update_;
}

UpdateShape SequenceSource::shape() const {
  const std::int64_t targets = file_.length() - 1;
  return {.max_length = targets,
          .source_tokens = 0,
          .target_tokens = static_cast<double>(std::min(sequences_per_update_, file_.sequences()) * targets)};
}

SequenceFileSet::SequenceFileSet(const Manifest& manifest, const std::string& set, std::int64_t max_sequences)
    : file_(manifest, set),
      sequences_(max_sequences > 0 ? std::min(max_sequences, file_.sequences()) : file_.sequences()),
      nats_per_token_(stored_entropy(manifest, set)) {}

double SequenceFileSet::entropy(std::int64_t first, std::int64_t last, int) const {
  return nats_per_token_ * static_cast<double>((last - first) * (file_.length() - 1));
}

}  // namespace babelring
