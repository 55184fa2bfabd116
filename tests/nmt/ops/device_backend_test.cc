#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "base/failure.h"
#include "nmt/ops/ops.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Tests of a GPU backend's functions other than ops: on the emulation everywhere, on a GPU where there is one.
class DeviceBackend : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const bool emulated = std::string(GetParam()) == "emulated";
    if (!emulated && !find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
    backend_ = emulated ? make_emulated_cuda_backend() : make_cuda_backend(0);
  }
  /// n floats on the device, not written yet.
  Tensor floats(std::int64_t n) {
    buffers_.push_back(backend_->allocate(static_cast<std::size_t>(n) * sizeof(float)));
    return buffers_.back().view(Shape{n}, DType::f32);
  }
  /// n zeros on the device, also where new memory is NaN.
  Tensor zeros(std::int64_t n) {
    const Tensor tensor = floats(n);
    backend_->run(Fill{.y = tensor, .value = 0});
    return tensor;
  }
  /// Attention of one sentence in f32, whose scores, and as many probabilities, lie in scratch memory.
  void attend(std::int64_t queries, std::int64_t keys) {
    constexpr std::int64_t width = 8;
    constexpr std::size_t room = 2049 * width * sizeof(float);
    if (operands_.bytes() == 0) operands_ = backend_->allocate(5 * room);
    const auto rows = [&](std::size_t place, std::int64_t count, std::int64_t columns) {
      return operands_.view({count, columns}, DType::f32, place * room);
    };
    const std::vector<std::int32_t> q_offsets = {0, static_cast<std::int32_t>(queries)};
    const std::vector<std::int32_t> k_offsets = {0, static_cast<std::int32_t>(keys)};
    backend_->run(AttentionForward{.q = rows(0, queries, width),
                                   .k = rows(1, keys, width),
                                   .v = rows(2, keys, width),
                                   .q_offsets = ConstTensor(q_offsets.data(), {2}, DType::i32),
                                   .k_offsets = ConstTensor(k_offsets.data(), {2}, DType::i32),
                                   .out = rows(3, queries, width),
                                   .log_sum_exp = rows(4, queries, 1)});
  }
  std::vector<float> downloaded(ConstTensor tensor) const {
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
    backend_->download(tensor, values.data());
    return values;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  Buffer operands_;  // of attend()
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceBackend, testing::Values("emulated", "cuda"),
                         [](const auto& device) { return std::string(device.param); });

/// More than the pinned blocks hold, from one place in the host's memory that is written anew each time.
TEST_P(DeviceBackend, UploadsWhatTheHostHadThen) {
  constexpr int count = 300;
  std::vector<float> host(10'000);
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back(floats(std::ssize(host)));
    std::fill(host.begin(), host.end(), static_cast<float>(i));
    backend_->upload(host.data(), tensors.back());
  }
  for (int i = 0; i < count; i += 37) {
    EXPECT_EQ(downloaded(tensors[static_cast<std::size_t>(i)]), std::vector<float>(host.size(), static_cast<float>(i)));
  }
  const Tensor large = floats(1'000'000);  // more than a block
  host.resize(1'000'000);
  std::iota(host.begin(), host.end(), 0.0f);
  backend_->upload(host.data(), large);
  EXPECT_EQ(downloaded(large), host);
}

TEST_P(DeviceBackend, FetchesWhatWasThereWhenItWasAsked) {
  const Tensor x = floats(5);
  std::vector<std::shared_ptr<const std::vector<float>>> fetched;
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    backend_->run(Fill{.y = x, .value = value});
    fetched.push_back(backend_->fetch(x));
  }
  backend_->synchronize();
  for (std::size_t i = 0; i < fetched.size(); ++i) {
    EXPECT_EQ(*fetched[i], std::vector<float>(5, static_cast<float>(i + 1)));
  }
  const auto again = backend_->fetch(x);
  downloaded(x);
  EXPECT_EQ(*again, std::vector<float>(5, 3.0f));
}

TEST_P(DeviceBackend, WaitsForWhatWasFetchedAndNotForWhatCameAfter) {
  const Tensor x = floats(5), y = zeros(5);
  std::vector<std::shared_ptr<const std::vector<float>>> fetched;
  for (const float value : {1.0f, 2.0f}) {
    backend_->run(Fill{.y = x, .value = value});
    fetched.push_back(backend_->fetch(x));
  }
  for (int i = 0; i < 20; ++i) backend_->run(Add{.x = x, .y = y});
  const auto mark = backend_->mark();
  backend_->await_fetched();
  EXPECT_EQ(*fetched[0], std::vector<float>(5, 1.0f));
  EXPECT_EQ(*fetched[1], std::vector<float>(5, 2.0f));
  if (std::string(GetParam()) == "emulated") {
    EXPECT_FALSE(mark->reached()) << "the emulation does nothing before it is waited for";
  }
  EXPECT_EQ(downloaded(y), std::vector<float>(5, 40.0f));
}

/// The norm of a gradient, [3, 4] or with an infinite element, goes to Adam in the device's memory.
TEST_P(DeviceBackend, ClipsAndSkipsUpdatesBeforeTheHostKnowsTheNorm) {
  const Tensor master = zeros(2), gradient = floats(2), m = zeros(2), v = zeros(2), squares = floats(1);
  const auto update = [&](float second) {
    const float values[] = {3, second};
    backend_->upload(values, gradient);
    backend_->run(SquaredNorm{.x = gradient, .sums = squares});
    const auto fetched = backend_->fetch(squares);
    backend_->run(AdamUpdate{
        .master = master, .gradient = gradient, .m = m, .v = v, .squares = squares, .clip_norm = 1, .beta1 = 0});
    if (std::string(GetParam()) == "emulated") {
      EXPECT_EQ(fetched->front(), 0) << "nobody has waited";
    }
    backend_->await_fetched();
    return fetched->front();
  };
  EXPECT_EQ(update(4), 25);
  const std::vector<float> clipped = downloaded(m);
  EXPECT_FLOAT_EQ(clipped[0], 0.6f);
  EXPECT_FLOAT_EQ(clipped[1], 0.8f);
  EXPECT_EQ(update(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(downloaded(m), clipped);
}

/// An index that only the device can see is reported with what was fetched after it, once.
TEST_P(DeviceBackend, ReportsAWrongIndexWithWhatWasFetched) {
  buffers_.push_back(backend_->allocate(sizeof(std::int32_t)));
  const Tensor target = buffers_.back().view(Shape{1}, DType::i32), logits = floats(9), losses = floats(3);
  const std::int32_t wrong = 9;
  backend_->upload(&wrong, target);
  backend_->run(CrossEntropy{.logits = Tensor(logits.data, Shape{1, 9}, DType::f32),
                             .targets = target,
                             .loss = losses.row_slice(0, 1),
                             .nll = losses.row_slice(1, 1),
                             .correct = losses.row_slice(2, 1)});
  backend_->fetch(losses);
  EXPECT_THAT([&] { backend_->await_fetched(); },
              ThrowsMessage<Failure>(HasSubstr("cross_entropy: targets[0] is 9, 0 to 8 is needed")));
  EXPECT_NO_THROW(backend_->await_fetched());
  backend_->fetch(losses);
  EXPECT_NO_THROW(backend_->await_fetched());
  EXPECT_NO_THROW(backend_->synchronize());
}

TEST_P(DeviceBackend, MarksTellTheTimeOfWork) {
  const Tensor x = floats(1000);
  for (int round = 0; round < 3; ++round) {
    const auto begin = backend_->mark();
    ASSERT_NE(begin, nullptr);
    for (int i = 0; i < 20; ++i) backend_->run(Fill{.y = x, .value = 1});
    const auto end = backend_->mark();
    backend_->synchronize();
    ASSERT_TRUE(begin->reached() && end->reached());
    EXPECT_GE(end->ms_since(*begin), 0);
  }
}

TEST_P(DeviceBackend, KnowsItsMemory) {
  const MemoryInfo before = backend_->memory();
  EXPECT_GT(before.free, 0U);
  EXPECT_LE(before.free, before.total);
  floats(16 << 20);
  EXPECT_LE(backend_->memory().free + (std::size_t{64} << 20), before.free);
}

TEST_P(DeviceBackend, SaysWhatMemoryWasFor) {
  EXPECT_THAT([&] { backend_->allocate(std::size_t{1} << 50, MemoryPurpose::activations); },
              ThrowsMessage<Failure>(HasSubstr(
                  "1125899906842624 bytes were needed for activations, which data.micro_batch_tokens limits; ")));
}

/// Rooms of 2048 and 3072 rows: what ops need grows, and each time the blocks that are there are too small.
TEST_P(DeviceBackend, ScratchMemoryDoesNotPileUp) {
  attend(1, 1);
  backend_->synchronize();
  const std::size_t before = backend_->memory().free;
  for (const auto& [queries, keys] : {std::pair{2048, 2048}, {2048, 2049}, {2049, 2049}}) {
    attend(queries, keys);
    backend_->await_fetched();
  }
  EXPECT_LE(before, backend_->memory().free + (std::size_t{100} << 20)) << "73 MiB are needed";
}

/// Otherwise nobody would notice code above the ops that looks into tensors.
TEST(ClosedBackendDeathTest, ItsMemoryIsShutToTheHostAlsoWhenAnOpWasRefused) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto backend = make_closed_backend();
  const Buffer memory = backend->allocate(4096);
  const Tensor ids = memory.view({2}, DType::i32), dy = memory.view({2, 8}, DType::f32, 256);
  const auto look = [&] { static_cast<void>(*static_cast<const volatile std::int32_t*>(ids.data)); };
  EXPECT_DEATH(look(), "");
  const std::int32_t wrong[] = {0, 9};
  backend->upload(wrong, ids);
  const EmbeddingBackward op{.ids = ids, .dy = dy, .dtable = memory.view({9, 8}, DType::f32, 512), .key = {}};
  EXPECT_THROW(backend->run(op), Failure);
  EXPECT_DEATH(look(), "");
}

/// Work that adds a tensor to y and returns y. It is called once to be compared, and once more unless it is repeated.
class Repeated : public DeviceBackend {
 protected:
  ConstTensor add(const Tensor& x) {
    return backend_->repeat([&] {
      ++calls_;
      backend_->run(Add{.x = x, .y = y_});
      return ConstTensor(y_);
    });
  }
  void SetUp() override {
    DeviceBackend::SetUp();
    if (backend_ == nullptr) return;
    x_ = floats(100);
    y_ = floats(100);
    z_ = floats(100);
    backend_->run(Fill{.y = x_, .value = 1});
    backend_->run(Fill{.y = y_, .value = 0});
  }

  Tensor x_, y_, z_;
  int calls_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Devices, Repeated, testing::Values("emulated", "cuda"),
                         [](const auto& device) { return std::string(device.param); });

TEST_P(Repeated, WorkIsRecordedTheSecondTime) {
  const int calls[] = {2, 4, 5, 6, 7, 8};
  for (int times = 1; times <= 6; ++times) {
    EXPECT_EQ(downloaded(add(x_)), std::vector<float>(100, static_cast<float>(times)));
    EXPECT_EQ(calls_, calls[times - 1]);
  }
  backend_->run(Fill{.y = x_, .value = 10});  // a repeat reads the values of that time
  EXPECT_EQ(downloaded(add(x_)), std::vector<float>(100, 16.0f));
  calls_ = 0;
  add(z_);
  EXPECT_EQ(calls_, 2) << "another tensor";
}

TEST_P(Repeated, WorkIsGivenAnewWhenMemoryHasChanged) {
  for (int times = 0; times < 3; ++times) add(x_);
  EXPECT_EQ(calls_, 5);
  floats(1);
  for (int times = 0; times < 3; ++times) add(x_);
  EXPECT_EQ(calls_, 10);
  EXPECT_EQ(downloaded(y_), std::vector<float>(100, 6.0f));
}

TEST_P(Repeated, WorkIsGivenAnewWhenScratchMemoryHasMoved) {
  attend(2048, 2048);
  backend_->synchronize();
  for (int times = 0; times < 3; ++times) add(x_);
  EXPECT_EQ(calls_, 5);
  attend(2048, 2049);
  backend_->synchronize();
  for (int times = 0; times < 3; ++times) add(x_);
  EXPECT_EQ(calls_, 10);
}

/// A replayed recording uses the lists, dropout keys and scales of the current call, whatever other ops use meanwhile.
TEST_P(Repeated, TakesTheListsAndKeysOfTheTime) {
  constexpr std::int64_t tokens = 12, width = 16;
  const auto tensor = [&](float value) {
    buffers_.push_back(backend_->allocate(tokens * width * sizeof(float)));
    const Tensor made = buffers_.back().view(Shape{tokens, width}, DType::f32);
    std::vector<float> values(tokens * width);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value * static_cast<float>(i % 13) - 1;
    backend_->upload(values.data(), made);
    return made;
  };
  const Tensor q = tensor(0.1f), k = tensor(0.2f), v = tensor(0.3f), out = tensor(0);
  buffers_.push_back(backend_->allocate(tokens * sizeof(float)));
  const Tensor sums = buffers_.back().view(Shape{tokens, 1}, DType::f32);
  DropoutKey key;
  const auto attend = [&](const std::vector<std::int32_t>& offsets) {
    const ConstTensor list(offsets.data(), Shape{std::ssize(offsets)}, DType::i32);
    backend_->run(AttentionForward{.q = q,
                                   .k = k,
                                   .v = v,
                                   .q_offsets = list,
                                   .k_offsets = list,
                                   .heads = 1,
                                   .scale = 0.25f,
                                   .key = key,
                                   .out = out,
                                   .log_sum_exp = sums});
    return ConstTensor(out);
  };
  std::set<std::vector<float>> results;
  for (std::int32_t times = 0; times < 6; ++times) {
    key = {.key = 77U + static_cast<std::uint64_t>(times), .first_row = times % 3, .probability = 0.3f};
    const std::vector<std::int32_t> offsets = {0, 5 + times % 2, 12};  // rooms for the same rows
    const std::vector<float> expected = downloaded(attend(offsets));
    int calls = 0;
    EXPECT_EQ(downloaded(backend_->repeat([&] { return ++calls, attend(offsets); })), expected) << times;
    EXPECT_EQ(calls, times < 2 ? 2 : 1) << times;
    results.insert(expected);
    for (std::int32_t middle = 1; middle < 12; ++middle) attend({0, middle, 12});
    for (std::int32_t middle = 2; middle < 12; ++middle) attend({0, 1, middle, 12});
  }
  EXPECT_EQ(results.size(), 6U);
}

TEST_P(Repeated, TakesTheScaleOfTheTime) {
  constexpr std::int64_t rows = 3, vocabulary = 40;
  const Tensor logits = zeros(rows * vocabulary), gradient = floats(rows * vocabulary), losses = floats(3 * rows);
  buffers_.push_back(backend_->allocate(rows * sizeof(std::int32_t)));
  const Tensor targets = buffers_.back().view(Shape{rows}, DType::i32);
  const std::int32_t ids[] = {3, CrossEntropy::no_target, 39};
  backend_->upload(ids, targets);
  const auto loss = [&](float scale) {
    const auto matrix = [&](const Tensor& tensor) { return Tensor(tensor.data, Shape{rows, vocabulary}, DType::f32); };
    backend_->run(CrossEntropy{.logits = matrix(logits),
                               .targets = targets,
                               .smoothing = 0.1f,
                               .gradient_scale = scale,
                               .dlogits = matrix(gradient),
                               .loss = losses.row_slice(0, rows),
                               .nll = losses.row_slice(rows, rows),
                               .correct = losses.row_slice(2 * rows, rows)});
    return ConstTensor(gradient);
  };
  for (const float scale : {1.0f, 0.5f, 0.25f, 0.125f}) {
    const std::vector<float> expected = downloaded(loss(scale));
    EXPECT_NE(expected[0], 0);
    EXPECT_EQ(downloaded(backend_->repeat([&] { return loss(scale); })), expected) << scale;
  }
}

/// Sentences of 200, 100 and 32 tokens, then short sentences only: a kernel that needs less shared memory than before
/// must not lower the limit of the recorded launches.
TEST_P(Repeated, SharedMemoryStaysEnoughForTheRecording) {
  constexpr std::int64_t tokens = 332, width = 64;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) {
    buffers_.push_back(backend_->allocate(tokens * width * 2));
    tensors.push_back(buffers_.back().view(Shape{tokens, width}, DType::bf16));
    backend_->run(Fill{.y = tensors.back(), .value = 0.5f});
  }
  buffers_.push_back(backend_->allocate(tokens * sizeof(float)));
  const Tensor sums = buffers_.back().view(Shape{tokens, 1}, DType::f32);
  const auto attend_back = [&](const std::vector<std::int32_t>& offsets) {
    const ConstTensor list(offsets.data(), Shape{std::ssize(offsets)}, DType::i32);
    const auto rows = [&](std::size_t i) { return tensors[i].row_slice(0, offsets.back()); };
    backend_->run(AttentionBackward{.dout = rows(0),
                                    .out = rows(1),
                                    .q = rows(2),
                                    .k = rows(3),
                                    .v = rows(4),
                                    .q_offsets = list,
                                    .k_offsets = list,
                                    .log_sum_exp = sums.row_slice(0, offsets.back()),
                                    .heads = 1,
                                    .scale = 0.125f,
                                    .dq = rows(5),
                                    .dk = rows(6),
                                    .dv = rows(7)});
    return ConstTensor(tensors[7]);
  };
  for (int times = 0; times < 4; ++times) {
    EXPECT_NO_THROW(backend_->repeat([&] { return attend_back({0, 200, 300, 332}); }));
    for (const std::int32_t length : {100, 32}) EXPECT_NO_THROW(attend_back({0, length}));
  }
  EXPECT_NO_THROW(backend_->synchronize());
}

TEST_P(Repeated, CountsItsOperations) {
  buffers_.push_back(backend_->allocate(64 * 64 * sizeof(float)));
  const Tensor square = buffers_.back().view(Shape{64, 64}, DType::f32);
  buffers_.push_back(backend_->allocate(64 * 64 * sizeof(float)));
  const Tensor matmul = buffers_.back().view(Shape{64, 64}, DType::f32);
  double last = backend_->flops();
  for (int times = 0; times < 4; ++times) {
    backend_->repeat([&] {
      backend_->run(LinearForward{.x = square, .weight = square, .y = matmul});
      return ConstTensor(matmul);
    });
    EXPECT_EQ(backend_->flops() - last, 2.0 * 64 * 64 * 64) << times;
    last = backend_->flops();
  }
}

}  // namespace
}  // namespace babelring
