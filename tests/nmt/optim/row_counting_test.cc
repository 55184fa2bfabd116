#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <deque>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/optim/adam.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

constexpr int updates = 50, skipped_update = 20;

/// Rows that blocks cut, a vector in three blocks, padding, a frozen parameter, and a neuron bias with a row an
/// element.
void declare_parameters(ParameterStore& store) {
  const Shape shapes[] = {{300, 36}, {40, 512}, {60, 64}, {40000}, {7}, {5, 9}, {1, 3}};
  for (const Shape& shape : shapes) {
    store.declare("p" + std::to_string(store.all().size()), shape, Initializer::zeros());
  }
  store.declare("p7.feed_forward.first.bias", Shape{37}, Initializer::zeros());
}

/// Memory that several ranks share: the same buffers in the same order for each rank.
class CommonMemory {
 public:
  ParameterMemory::Allocate allocator() {
    return [this, next = std::make_shared<std::size_t>(0)](std::size_t bytes) {
      if (*next == buffers_.size()) buffers_.push_back(allocate_host(bytes));
      return Buffer(buffers_[(*next)++].data(), bytes, [](void*) {});
    };
  }

 private:
  std::deque<Buffer> buffers_;
};

/// Masters, their copies and gradients on the host.
struct Values {
  std::vector<float> masters, gradients;
  std::vector<BFloat16> copies;  // empty in f32 mode
};

/// One rank with its share of the weights.
class Rank {
 public:
  Rank(std::unique_ptr<Backend> backend, DType type, int rank, int ranks, ParameterMemory::Allocate allocate)
      : backend_(std::move(backend)) {
    if (!allocate) allocate = [this](std::size_t bytes) { return backend_->allocate(bytes); };
    declare_parameters(store_);
    store_.allocate({allocate, [this](std::size_t bytes) { return backend_->allocate(bytes); }}, type);
    const auto moment = [&] { return Moment(allocate(store_.masters().bytes()), store_.flat_size()); };
    adam_.emplace(store_, AdamOptions{.weight_decay = 1e-3},
                  ranks > 1 ? Shards(store_.flat_size(), rank, ranks) : Shards(), moment);
    adam_->freeze(store_.all()[5]);
    counting_.emplace(store_, *backend_, allocate);
    squares_ = backend_->allocate(sizeof(float));
  }
  const ParameterStore& store() const { return store_; }
  const RowCounting& counting() const { return *counting_; }
  void count_rows(bool on) { adam_->count_rows(on ? &*counting_ : nullptr); }
  void reset() { counting_->reset(); }

  void set_weights(const Values& values) {
    backend_->upload(values.masters.data(), store_.masters());
    if (store_.compute_copies()) backend_->upload(values.copies.data(), store_.compute_copies());
  }
  void update(const std::vector<float>& gradients, float learning_rate, float square) {
    backend_->upload(gradients.data(), store_.gradients());
    const Tensor squares = squares_.view(Shape{1}, DType::f32);
    backend_->upload(&square, squares);
    adam_->start_step(*backend_, learning_rate, squares);
    backend_->synchronize();
    adam_->finish_step({&square, 1});
  }
  Values values() const {
    Values values;
    values.masters.resize(static_cast<std::size_t>(store_.flat_size()));
    values.gradients.resize(values.masters.size());
    backend_->download(store_.masters(), values.masters.data());
    backend_->download(store_.gradients(), values.gradients.data());
    if (!store_.compute_copies()) return values;
    values.copies.resize(values.masters.size());
    backend_->download(store_.compute_copies(), values.copies.data());
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
  ParameterStore store_;
  std::optional<Adam> adam_;
  std::optional<RowCounting> counting_;
  Buffer squares_;
};

/// Counts one update of a row of elements [begin, end) by comparing copies.
void compare_row(const Values& before, const Values& after, std::size_t begin, std::size_t end, bool frozen,
                 RowCount& row) {
  RowPart sums;
  for (std::size_t i = begin; i < end && !frozen; ++i) {
    const float old = before.masters[i], now = after.masters[i];
    if (std::bit_cast<std::uint32_t>(old) != std::bit_cast<std::uint32_t>(now)) ++sums.changed_elements;
    if (after.gradients[i] != 0) sums.touched = 1;
    if (!after.copies.empty() && before.copies[i].bits != after.copies[i].bits) sums.visible = 1;
    sums.change += std::pow(static_cast<double>(now) - static_cast<double>(old), 2);
    sums.weight += std::pow(static_cast<double>(old), 2);
  }
  if (after.copies.empty()) sums.visible = sums.changed_elements;
  count_update(row, sums, std::sqrt(sums.change / sums.weight));
}

void compare_rows(const ParameterStore& store, const Values& before, const Values& after,
                  std::vector<RowCount>& counts) {
  auto count = counts.begin();
  for (const Parameter& parameter : store.all()) {
    const std::int64_t width = parameter.shape.elements() / RowCounting::rows_of(parameter);
    for (std::int64_t row = 0; row < RowCounting::rows_of(parameter); ++row) {
      const auto begin = static_cast<std::size_t>(parameter.offset + row * width);
      compare_row(before, after, begin, begin + static_cast<std::size_t>(width), parameter.index == 5, *count++);
    }
  }
}

/// Some rows of 100 elements have gradients, some never, some sometimes.
std::vector<float> gradients_of(const ParameterStore& store, int update) {
  std::vector<float> gradients(static_cast<std::size_t>(store.flat_size()));
  Random random(static_cast<std::uint64_t>(update));
  for (const Parameter& parameter : store.all()) {
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
      const std::int64_t stretch = i / 100;
      const bool zero = stretch % 7 == 0 || (stretch % 7 == 1 && update % 5 != 0);
      gradients[static_cast<std::size_t>(parameter.offset + i)] = zero ? 0 : static_cast<float>(random.normal());
    }
  }
  return gradients;
}

Values initial_weights(const ParameterStore& store) {
  Values values;
  values.masters.resize(static_cast<std::size_t>(store.flat_size()));
  Random random(5);
  for (const Parameter& parameter : store.all()) {
    if (parameter.index == 2 || parameter.index == 4) continue;  // begin as zeros
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) {
      values.masters[static_cast<std::size_t>(parameter.offset + i)] = static_cast<float>(random.normal());
    }
  }
  for (const float master : values.masters) values.copies.emplace_back(master);
  return values;
}

struct Outcome {
  std::vector<RowCount> counted, compared;
  Values values;
};

/// Runs all updates on ranks that share one copy of the weights, each but the first in its own thread.
Outcome train(const std::string& device, int threads, DType type, int ranks, bool counts = true) {
  CommonMemory common;
  std::deque<Rank> replicas;
  for (int rank = 0; rank < ranks; ++rank) {
    replicas.emplace_back(device == "cpu" ? make_cpu_backend(threads) : make_test_backend(device), type, rank, ranks,
                          ranks > 1 ? common.allocator() : ParameterMemory::Allocate());
    replicas.back().count_rows(counts);
  }
  Rank& first = replicas[0];
  first.set_weights(initial_weights(first.store()));
  Outcome outcome;
  outcome.compared.resize(static_cast<std::size_t>(first.counting().rows()));
  outcome.values = first.values();
  for (int update = 1; update <= updates; ++update) {
    const std::vector<float> gradients = gradients_of(first.store(), update);
    const float rates[] = {1e-3f, 1e-5f, 1e-8f};
    const float square = update == skipped_update ? std::numeric_limits<float>::infinity() : 1;
    std::vector<std::future<void>> others;
    for (std::size_t rank = 1; rank < replicas.size(); ++rank) {
      others.push_back(
          std::async(std::launch::async, [&, rank] { replicas[rank].update(gradients, rates[update % 3], square); }));
    }
    first.update(gradients, rates[update % 3], square);
    for (auto& other : others) other.get();
    Values after = first.values();
    if (update != skipped_update) compare_rows(first.store(), outcome.values, after, outcome.compared);
    outcome.values = std::move(after);
  }
  outcome.counted = first.counting().read();
  return outcome;
}

void expect_equal(const std::vector<RowCount>& counted, const std::vector<RowCount>& compared) {
  ASSERT_EQ(counted.size(), compared.size());
  for (std::size_t row = 0; row < counted.size(); ++row) {
    RowCount found = counted[row];
    const RowCount& expected = compared[row];
    ASSERT_NEAR(found.ratios, expected.ratios, 1e-5 * expected.ratios) << "row " << row;
    ASSERT_NEAR(found.max_ratio, expected.max_ratio, 1e-5f * expected.max_ratio) << "row " << row;
    found.ratios = expected.ratios, found.max_ratio = expected.max_ratio;
    ASSERT_EQ(found, expected) << "row " << row << ": changed " << found.changed << " " << expected.changed
                               << ", elements " << found.changed_elements << " " << expected.changed_elements
                               << ", visible " << found.visible << " " << expected.visible << ", touched "
                               << found.touched << " " << expected.touched << ", counted " << found.counted << " "
                               << expected.counted;
  }
}

class RowCountingTest : public testing::TestWithParam<std::tuple<std::string, DType>> {};
INSTANTIATE_TEST_SUITE_P(Devices, RowCountingTest,
                         testing::Combine(testing::Values("cpu", "closed", "emulated", "cuda"),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" + std::string(name_of(std::get<1>(tested.param)));
                         });

TEST_P(RowCountingTest, CountsAsCopiesCompared) {
  const auto& [device, type] = GetParam();
  if (device == "cuda" && !find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const Outcome outcome = train(device, 3, type, 1);
  expect_equal(outcome.counted, outcome.compared);
  const RowCount& frozen = outcome.counted[402];
  EXPECT_EQ(frozen, RowCount{.counted = updates - 1}) << "frozen, in all but the skipped update";
  EXPECT_EQ(outcome.counted[0].touched, 0);
  EXPECT_EQ(train(device, 3, type, 1, false).values.masters, outcome.values.masters) << "counting changes no weight";
}

class RanksOfOneCopy : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, RanksOfOneCopy, testing::Values(DType::f32, DType::bf16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

/// Ranks with a copy each count as one rank does.
TEST_P(RanksOfOneCopy, NeitherRanksNorThreadsChangeABit) {
  const Outcome outcome = train("cpu", 1, GetParam(), 1);
  for (const int ranks : {1, 2, 3}) {
    const Outcome again = train("cpu", 3, GetParam(), ranks);
    EXPECT_EQ(again.counted, outcome.counted) << ranks;
    expect_equal(again.counted, again.compared);
    EXPECT_EQ(again.values.masters, outcome.values.masters) << ranks;
  }
}

TEST(RowCounting, NamesTheRowsOfParametersAndStartsAgainAfterReset) {
  Rank rank(make_cpu_backend(1), DType::f32, 0, 1, {});
  const auto& parameters = rank.store().all();
  EXPECT_EQ(rank.counting().rows(), 300 + 40 + 60 + 1 + 1 + 5 + 1 + 37);
  EXPECT_EQ(rank.counting().first_row(parameters[2]), 340);
  EXPECT_EQ(RowCounting::rows_of(parameters[3]), 1);
  EXPECT_EQ(RowCounting::rows_of(parameters[7]), 37);
  rank.set_weights(initial_weights(rank.store()));
  rank.count_rows(true);
  rank.update(gradients_of(rank.store(), 1), 0.1f, 1);
  EXPECT_EQ(rank.counting().read()[2].changed, 1);
  EXPECT_EQ(rank.counting().read()[2].changed_elements, 36);
  rank.reset();
  EXPECT_EQ(rank.counting().read()[2], RowCount());
  rank.count_rows(false);
  rank.update(gradients_of(rank.store(), 2), 0.1f, 1);
  EXPECT_EQ(rank.counting().read()[2], RowCount());
}

}  // namespace

}  // namespace babelring
