#include "nmt/optim/adam.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "base/failure.h"

namespace babelring {

static_assert(Shards::grain % SquaredNorm::block == 0, "a block of the norm lies in one shard");

GradientNorm::GradientNorm(const ParameterStore& store, Backend& backend)
    : store_(&store),
      squares_(backend.allocate(static_cast<std::size_t>(SquaredNorm::blocks(store.flat_size())) * size_of(DType::f32),
                                MemoryPurpose::gradients)) {}

Tensor GradientNorm::squares_tensor() const {
  return squares_.view(Shape{SquaredNorm::blocks(store_->flat_size())}, DType::f32);
}

ConstTensor GradientNorm::squares(Backend& backend) const {
  backend.run(SquaredNorm{.x = store_->gradients(), .sums = squares_tensor()});
  return squares_tensor();
}

std::vector<double> GradientNorm::squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                                 const Shards& shard) const {
  for (const auto& [begin, end] : shard.within({0, store_->flat_size()})) {
    const std::int64_t count = end - begin;
    SumWithNorm op{.parts = {},
                   .sum = store_->gradients().row_slice(begin, count),
                   .norms = squares_tensor().row_slice(begin / SquaredNorm::block, SquaredNorm::blocks(count))};
    for (const ConstTensor& gradients : on_ranks) op.parts.push_back(gradients.row_slice(begin, count));
    backend.run(op);
  }
  std::vector<float> host(static_cast<std::size_t>(SquaredNorm::blocks(store_->flat_size())));
  backend.download(squares_tensor(), host.data());  // blocks outside the shard are never written and stay 0
  return {host.begin(), host.end()};
}

namespace {

std::int64_t elements_in(const std::vector<ElementRange>& ranges) {
  std::int64_t elements = 0;
  for (const auto& [begin, end] : ranges) elements += end - begin;
  return elements;
}

}  // namespace

Moment::Moment(Buffer memory, std::int64_t size, const Shards& shard)
    : memory_(std::move(memory)), size_(size), kept_(shard.within({0, size})) {
  std::int64_t next = 0;
  for (const auto& [begin, end] : kept_) {
    begins_.push_back(next);
    next += end - begin;
  }
}

std::size_t Moment::bytes_of(std::int64_t size, const Shards& shard) {
  return static_cast<std::size_t>(elements_in(shard.within({0, size}))) * size_of(DType::f32);
}

Tensor Moment::values() const {
  return memory_.view(Shape{elements_in(kept_)}, DType::f32);
}

Tensor Moment::part(const ElementRange& range) const {
  const auto after = std::upper_bound(kept_.begin(), kept_.end(), range.begin,
                                      [](std::int64_t begin, const ElementRange& kept) { return begin < kept.begin; });
  if (after == kept_.begin() || std::prev(after)->end < range.end) {
    fail("a moment has no values for elements {} to {}", range.begin, range.end);
  }
  const auto index = static_cast<std::size_t>(after - kept_.begin() - 1);
  return values().row_slice(begins_[index] + range.begin - kept_[index].begin, range.end - range.begin);
}

namespace {

constexpr std::int64_t block = SquaredNorm::block;
static_assert(Shards::grain % block == 0 && block % ParameterStore::alignment == 0);

/// The pieces of all rows, and for each block the index of its first piece.
struct RowLayout {
  std::vector<std::int32_t> blocks;
  std::vector<RowPiece> pieces;
  std::int32_t parts = 0;

  /// Adds the row of elements [begin, end) of the flat array. Rows are added in order.
  void add(std::int32_t row, std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::int32_t>((end - 1) / block - begin / block + 1);
    for (std::int32_t part = 0; part < count; ++part) {
      const std::int64_t of_block = begin / block + part;
      const std::int64_t first = std::max(begin, of_block * block), last = std::min(end, (of_block + 1) * block);
      if (std::ssize(blocks) == of_block) blocks.push_back(static_cast<std::int32_t>(pieces.size()));
      pieces.push_back({.row = row,
                        .begin = static_cast<std::int32_t>(first - of_block * block),
                        .count = static_cast<std::int32_t>(last - first),
                        .part = part,
                        .parts = count,
                        .first_part = parts});
    }
    if (count > 1) parts += count;
  }
};

template <class Element>
Shape words_of(std::int64_t count) {
  return {count, RowCounters::words<Element>};
}

/// A copy of the elements in the backend's memory.
template <class Element>
Buffer upload(Backend& backend, const std::vector<Element>& elements) {
  Buffer buffer = backend.allocate(elements.size() * sizeof(Element), MemoryPurpose::tools);
  backend.upload(elements.data(), buffer.view({std::ssize(elements), RowCounters::words<Element>}, DType::i32));
  return buffer;
}

}  // namespace

RowCounting::RowCounting(const ParameterStore& store, Backend& backend,
                         const std::function<Buffer(std::size_t bytes)>& allocate)
    : backend_(backend) {
  RowLayout layout;
  for (const Parameter& parameter : store.all()) {
    first_rows_.push_back(rows_);
    const std::int64_t width = parameter.shape.elements() / rows_of(parameter);
    for (std::int64_t row = 0; row < rows_of(parameter); ++row) {
      const std::int64_t begin = parameter.offset + row * width;
      layout.add(static_cast<std::int32_t>(rows_++), begin, begin + width);
    }
    layout.pieces.back().padding = static_cast<std::int32_t>(store.padded_size(parameter) - parameter.shape.elements());
  }
  layout.blocks.push_back(static_cast<std::int32_t>(layout.pieces.size()));
  block_count_ = std::ssize(layout.blocks);
  piece_count_ = std::ssize(layout.pieces);
  part_count_ = std::max(layout.parts, 1);
  blocks_ = upload(backend, layout.blocks);
  pieces_ = upload(backend, layout.pieces);
  counts_ = allocate(static_cast<std::size_t>(rows_) * sizeof(RowCount));
  parts_ = allocate(static_cast<std::size_t>(part_count_) * sizeof(RowPart));
}

Tensor RowCounting::counts() const {
  return counts_.view(words_of<RowCount>(rows_), DType::i32);
}

RowCounters RowCounting::of(const ElementRange& range) const {
  if (range.begin % block != 0)
    fail("rows are counted in blocks of {} elements, a range begins at {}", block, range.begin);
  const std::int64_t blocks = SquaredNorm::blocks(range.end - range.begin);
  return {.blocks = blocks_.view({block_count_}, DType::i32).row_slice(range.begin / block, blocks + 1),
          .pieces = pieces_.view(words_of<RowPiece>(piece_count_), DType::i32),
          .counts = counts(),
          .parts = parts_.view(words_of<RowPart>(part_count_), DType::i32)};
}

std::vector<RowCount> RowCounting::read() const {
  std::vector<RowCount> rows(static_cast<std::size_t>(rows_));
  backend_.download(counts(), rows.data());
  return rows;
}

void RowCounting::reset() {
  const std::vector<RowCount> zeros(static_cast<std::size_t>(rows_));
  backend_.upload(zeros.data(), counts());
}

std::vector<const Parameter*> matching_parameters(const ParameterStore& store, std::string_view key,
                                                  const std::string& glob) {
  std::vector<const Parameter*> matched;
  for (const Parameter& parameter : store.all()) {
    if (fnmatch(glob.c_str(), parameter.name.c_str(), 0) == 0) matched.push_back(&parameter);
  }
  if (!matched.empty()) return matched;
  std::vector<std::string> examples;
  const std::size_t step = std::max<std::size_t>(1, store.all().size() / 6);
  for (std::size_t i = 0; i < store.all().size(); i += step) examples.push_back(store.all()[i].name);
  throw UsageFailure(
      fmt::format("{}: '{}' matches no parameter; parameters are {}, …", key, glob, fmt::join(examples, ", ")));
}

void AdamOptions::bind(OptionBinder& b) {
  b.number("beta1", beta1, 0, 0.9999999, "decay of the first moment");
  b.number("beta2", beta2, 0, 0.9999999, "decay of the second moment");
  b.number("epsilon", epsilon, 0, 1, "added to the square root of the second moment");
  b.number("weight_decay", weight_decay, 0, 1,
           "decoupled weight decay, multiplied by the learning rate; biases and norms have none");
  b.number("clip_norm", clip_norm, 0, 1e9,
           "max global gradient norm; larger gradients are scaled down to it; 0: no clipping");
  b.items("groups", groups,
          "parameters with another learning rate or weight decay; the first group that matches counts");
}

void ParameterGroup::bind(OptionBinder& b) {
  b.list("parameters", parameters, "names with * and ?, such as encoder.*");
  b.number("learning_rate_factor", rate_factor, 0, 1000, "factor of the learning rate");
  b.number("weight_decay_factor", decay_factor, 0, 1000,
           "factor of optimizer.weight_decay; biases and norms have none");
}

Adam::Adam(const ParameterStore& store, const AdamOptions& options, const Shards& shard,
           const std::function<Moment()>& allocate)
    : store_(&store),
      options_(options),
      own_(shard.within({0, store.flat_size()})),
      m_(allocate()),
      v_(allocate()),
      matched_(store.all().size()) {
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    const std::string key = fmt::format("optimizer.groups.{}.parameters", group + 1);
    if (options_.groups[group].parameters.empty()) throw UsageFailure(key + ": missing; expected names with * and ?");
    for (const std::string& glob : options_.groups[group].parameters) {
      for (const Parameter* parameter : matching_parameters(store, key, glob)) {
        const ParameterGroup*& matched = matched_[parameter->index];
        if (matched == nullptr) matched = &options_.groups[group];
      }
    }
  }
}

void Adam::keep_average(double decay, Moment average) {
  average_ = std::move(average);
  average_decay_ = decay;
}

void Adam::freeze(const Parameter& parameter) {
  frozen_.insert(parameter.index);
  group_ = Buffer();
}

AdamUpdate::Group Adam::group(const Parameter& parameter) const {
  const ParameterGroup* matched = matched_[parameter.index];
  const double decay = parameter.shape.rank() == 1 ? 0 : options_.weight_decay;
  return {.rate_factor = matched != nullptr ? static_cast<float>(matched->rate_factor) : 1,
          .weight_decay = static_cast<float>(matched != nullptr ? decay * matched->decay_factor : decay)};
}

/// Once, before the first update.
void Adam::upload_groups(Backend& backend) {
  if (group_.data() != nullptr || (options_.weight_decay == 0 && frozen_.empty() && options_.groups.empty())) return;
  static_assert(ParameterStore::alignment % AdamUpdate::group_block == 0);
  std::vector<AdamUpdate::Group> groups;
  std::vector<std::int32_t> indices(static_cast<std::size_t>(AdamUpdate::group_blocks(store_->flat_size())));
  for (const Parameter& parameter : store_->all()) {
    std::int32_t index = AdamUpdate::frozen;
    if (!freezes(parameter)) {
      const auto found = std::find(groups.begin(), groups.end(), group(parameter));
      index = static_cast<std::int32_t>(found - groups.begin());
      if (found == groups.end()) groups.push_back(group(parameter));
    }
    std::fill_n(indices.begin() + parameter.offset / AdamUpdate::group_block,
                store_->padded_size(parameter) / AdamUpdate::group_block, index);
  }
  group_ = backend.allocate(indices.size() * sizeof(std::int32_t), MemoryPurpose::moments);
  backend.upload(indices.data(), group_.view(Shape{static_cast<std::int64_t>(indices.size())}, DType::i32));
  groups_ = backend.allocate(groups.size() * sizeof(AdamUpdate::Group), MemoryPurpose::moments);
  group_count_ = static_cast<std::int64_t>(groups.size());
  backend.upload(groups.data(), groups_.view(Shape{group_count_, 2}, DType::f32));
}

void Adam::start_step(Backend& backend, double learning_rate, ConstTensor squares) {
  upload_groups(backend);
  for (const ElementRange& range : own_) update(backend, range, learning_rate, squares);
}

UpdateStats Adam::finish_step(std::span<const float> squares) {
  const double norm = SquaredNorm::norm(squares);
  const bool skipped = !std::isfinite(norm);
  if (!skipped) ++steps_;
  return {.gradient_norm = norm, .skipped = skipped};
}

void Adam::update(Backend& backend, const ElementRange& range, double learning_rate, ConstTensor squares) const {
  const auto part = [&](const Tensor& flat) { return flat.row_slice(range.begin, range.end - range.begin); };
  const Tensor copies = store_->compute_copies();
  ConstTensor group, groups;
  if (group_.data() != nullptr) {
    group = group_.view(Shape{AdamUpdate::group_blocks(store_->flat_size())}, DType::i32)
                .row_slice(range.begin / AdamUpdate::group_block, AdamUpdate::group_blocks(range.end - range.begin));
    groups = groups_.view(Shape{group_count_, 2}, DType::f32);
  }
  const auto t = static_cast<double>(steps_ + 1);
  const double decay = std::min(average_decay_, (1 + t) / (10 + t));
  backend.run(AdamUpdate{.master = part(store_->masters()),
                         .gradient = part(store_->gradients()),
                         .m = m_.part(range),
                         .v = v_.part(range),
                         .compute = copies ? part(copies) : Tensor(),
                         .group = group,
                         .groups = groups,
                         .squares = squares,
                         .rows = counting_ != nullptr ? counting_->of(range) : RowCounters(),
                         .average = average_ ? average_->part(range) : Tensor(),
                         .clip_norm = options_.clip_norm,
                         .learning_rate = static_cast<float>(learning_rate),
                         .beta1 = static_cast<float>(options_.beta1),
                         .beta2 = static_cast<float>(options_.beta2),
                         .eps = static_cast<float>(options_.epsilon),
                         .weight_decay = static_cast<float>(options_.weight_decay),
                         .average_rate = static_cast<float>(1 - decay),
                         .step = steps_ + 1});
}

}  // namespace babelring
