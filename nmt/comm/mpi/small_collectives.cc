#include "nmt/comm/mpi/small_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "nmt/comm/host_name.h"
#include "nmt/comm/mpi/collectives.h"
#include "nmt/comm/mpi/tree_collectives.h"

namespace babelring {
namespace {

/// Adds the ranks' values in rank order.
std::string add_values(const std::vector<std::string>& by_rank) {
  std::vector<double> sums(by_rank[0].size() / sizeof(double)), values(sums.size());
  for (const std::string& bytes : by_rank) {
    if (bytes.size() != by_rank[0].size()) {
      throw CommError(fmt::format("sum of {} doubles: another rank has {} bytes", sums.size(), bytes.size()));
    }
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return {reinterpret_cast<const char*>(sums.data()), by_rank[0].size()};
}

/// Each text after its size.
std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    const auto size = static_cast<std::int64_t>(text.size());
    joined.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  return joined;
}

std::vector<std::string> split_texts(const std::string& joined) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < joined.size(); at += texts.back().size()) {
    std::int64_t size = 0;
    std::memcpy(&size, joined.data() + at, sizeof size);
    at += sizeof size;
    texts.push_back(joined.substr(at, static_cast<std::size_t>(size)));
  }
  return texts;
}

}  // namespace

SmallCollectives::SmallCollectives(MpiProgress& progress, int rank, int ranks)
    : progress_(progress),
      rank_(rank),
      ranks_(ranks),
      tree_(std::make_shared<const RankTree>(RankTree::by_number(ranks))) {}

std::vector<std::string> SmallCollectives::learn_hosts() {
  std::vector<std::string> names, identities;
  for (const std::string& text : all_gather(host_name() + "\n" + host_identity())) {
    names.push_back(text.substr(0, text.find('\n')));
    identities.push_back(text.substr(names.back().size() + 1));
  }
  std::vector<std::string> hosts = distinct_host_names(names, identities);
  if (rank_ == 0 && hosts != names) {
    const std::set<std::string> given(names.begin(), names.end()), distinct(hosts.begin(), hosts.end());
    spdlog::warn("several hosts are called {}: they are named {}", fmt::join(given, ", "), fmt::join(distinct, ", "));
  }
  set_hosts(hosts);
  return hosts;
}

void SmallCollectives::set_hosts(const std::vector<std::string>& hosts) {
  tree_ = std::make_shared<const RankTree>(RankTree::by_host(hosts));
  std::set<std::string> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (known.insert(hosts[static_cast<std::size_t>(rank)]).second) first_ranks_.push_back(rank);
  }
  one_host_ = first_ranks_.size() == 1;
}

void SmallCollectives::run(MpiProgress::Make make) {
  progress_.submit(std::move(make));
  progress_.wait();
}

std::string SmallCollectives::gather(std::string name, std::string own, TreeGather::Answer answer,
                                     TreeGather::Merge merge) {
  const auto exchange = std::make_shared<GatherExchange>(GatherExchange{.own = std::move(own), .answer = {}});
  run([tree = tree_, name = std::move(name), exchange, answer = std::move(answer), merge = std::move(merge)](
          MpiProgress::World& world, std::int64_t sequence) {
    return std::make_unique<TreeGather>(world.collectives.get(), tree, world.rank, tag_of(sequence), name, exchange,
                                        answer, merge);
  });
  return std::move(exchange->answer);
}

void SmallCollectives::sum(std::vector<double>& values) {
  const std::size_t count = values.size();
  if (!one_host_) {
    const std::string own(reinterpret_cast<const char*>(values.data()), count * sizeof(double));
    const std::string sums = gather(fmt::format("sum of {} doubles", count), own, add_values);
    std::memcpy(values.data(), sums.data(), sums.size());
    return;
  }
  const auto gathered = std::make_shared<std::vector<double>>(count * static_cast<std::size_t>(ranks_));
  std::copy(values.begin(), values.end(), gathered->begin() + static_cast<std::ptrdiff_t>(count) * rank_);
  run([=](MpiProgress::World& world, std::int64_t) {
    return std::make_unique<MpiCollective>(mpi_gather_doubles(world.collectives.get(), gathered, world.ranks));
  });
  std::fill(values.begin(), values.end(), 0.0);
  for (std::size_t i = 0; i < gathered->size(); ++i) values[i % count] += (*gathered)[i];
}

std::vector<std::string> SmallCollectives::all_gather(const std::string& text) {
  return split_texts(gather(fmt::format("all-gather of {} bytes", text.size()), text, join_texts));
}

void SmallCollectives::or_bits(std::vector<std::uint64_t>& words) {
  const std::string own(reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]);
  const std::string all = gather(fmt::format("or of {} bytes", own.size()), own, {}, or_bytes);
  std::memcpy(words.data(), all.data(), all.size());
}

void SmallCollectives::barrier() {
  if (!one_host_) {
    gather("barrier", "", [](const auto&) { return std::string(); });
    return;
  }
  run([](MpiProgress::World& world, std::int64_t) {
    return std::make_unique<MpiCollective>(mpi_barrier(world.collectives.get()));
  });
}

void SmallCollectives::broadcast(void* data, std::size_t bytes, int root) {
  if (root < 0 || root >= ranks_) fail("broadcast: root is {}, expected 0 to {}", root, ranks_ - 1);
  const int from = rank_ == root ? -1 : tree_->toward(rank_, root);
  std::vector<int> targets = tree_->neighbours(rank_);
  std::erase(targets, from);
  broadcast_blocks(static_cast<char*>(data), bytes, root, from, targets);
}

void SmallCollectives::broadcast_to_hosts(void* data, std::size_t bytes) {
  if (one_host_) return;
  const auto is_first = [this](int rank) { return std::binary_search(first_ranks_.begin(), first_ranks_.end(), rank); };
  if (!is_first(rank_)) return broadcast_blocks(nullptr, bytes, 0, -1, {});
  std::vector<int> targets = tree_->children(rank_);
  std::erase_if(targets, [&](int rank) { return !is_first(rank); });
  broadcast_blocks(static_cast<char*>(data), bytes, 0, tree_->parent(rank_), targets);
}

/// Copies through blocks owned by the collective: after a failure the caller may free its memory while MPI still moves
/// data. A rank without `data` sends nothing, but runs the collective, so that numbers, and with them tags, stay equal
/// on all ranks.
void SmallCollectives::broadcast_blocks(char* data, std::size_t bytes, int root, int from,
                                        const std::vector<int>& targets) {
  constexpr std::size_t max_block_bytes = std::size_t{16} << 20;
  for (std::size_t offset = 0; offset < bytes; offset += max_block_bytes) {
    const auto block =
        std::make_shared<std::string>(data != nullptr ? std::min(max_block_bytes, bytes - offset) : 0, '\0');
    if (data != nullptr && from < 0) std::copy_n(data + offset, block->size(), block->data());
    run([=](MpiProgress::World& world, std::int64_t sequence) {
      return std::make_unique<TreeBroadcast>(world.collectives.get(), from, targets, tag_of(sequence), block, root);
    });
    if (from >= 0) std::memcpy(data + offset, block->data(), block->size());
  }
}

std::vector<RoundTrip> SmallCollectives::round_trips(int count) {
  const auto trips = std::make_shared<std::vector<RoundTrip>>(static_cast<std::size_t>(rank_ == 0 ? 0 : count));
  run([=](MpiProgress::World& world, std::int64_t sequence) {
    return std::make_unique<MpiCollective>(
        mpi_round_trips(world.collectives.get(), tag_of(sequence), trips, count, world.rank, world.ranks));
  });
  return std::move(*trips);
}

}  // namespace babelring
