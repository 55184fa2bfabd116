#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/work_folder.h"
#include "nmt/checkpoint/checkpoint.h"
#include "tests/nmt/checkpoint/poison.h"
#include "tests/nmt/checkpoint/store_fixture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AverageTest : public StoreTest {};

TEST_F(AverageTest, NonFiniteWeightsAreNotAveraged) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  store.save(content(2));
  poison_checkpoint(folder_ / "update-00000001", "w", 250, INFINITY);
  ASSERT_TRUE(load_checkpoint(folder_ / "update-00000001").ok());
  EXPECT_THAT([&] { average_checkpoints(store.list(), base_ / "average"); },
              ThrowsMessage<Failure>(
                  HasSubstr("update-00000001/weights.safetensors: weights are not finite: w[2, 50] is inf")));
  EXPECT_FALSE(fs::exists(base_ / "average"));
}

TEST_F(AverageTest, AverageIsTheMeanAndSelfContained) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  const std::vector<float> first = weights_;
  for (float& weight : weights_) weight = 3 * weight + 1;
  store.save(content(2));
  const Checkpoint mean = average_checkpoints(store.list(), base_ / "average");
  EXPECT_EQ(mean.update, 2);
  const TensorFiles reader = mean.weights();
  const auto* values = reader.tensor("w", {40, 100}).as<float>();
  for (std::size_t i = 0; i < first.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<float>((static_cast<double>(first[i]) + static_cast<double>(weights_[i])) / 2));
  }
  EXPECT_EQ(to_text(mean.state.at("averaged_from")), R"(["update-00000001","update-00000002"])");
  EXPECT_EQ(read_file(mean.folder / "spm.model"), "spm");
  EXPECT_FALSE(fs::exists(mean.folder / "optimizer.safetensors"));
  // With a trailing slash, as shells complete folder names.
  const Checkpoint again = average_checkpoints({folder_ / "update-00000002/"}, base_ / "again/");
  EXPECT_EQ(again.folder, base_ / "again");
  EXPECT_EQ(to_text(again.state.at("averaged_from")), R"(["update-00000002"])");
}

TEST_F(AverageTest, FailedAverageLeavesNothing) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  std::signal(SIGXFSZ, SIG_IGN);  // write() then fails instead
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 8192, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    average_checkpoints(store.list(), base_ / "average");
  } catch (const Failure& failure) {
    message = failure.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(entries(base_), 2U) << "source.model and checkpoints";
}

TEST_F(AverageTest, TwoAveragesDoNotMixAndFoldersOfOthersStay) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  fs::create_directories(base_ / "average.tmp");
  std::ofstream(base_ / "average.tmp" / "notes") << "mine";
  const auto average = [&] { average_checkpoints(store.list(), base_ / "average"); };
  {
    const WorkFolder other(base_, "average");
    EXPECT_THAT(average, testing::ThrowsMessage<UsageFailure>(HasSubstr("writes there at the moment")));
  }
  average();
  EXPECT_EQ(read_file(base_ / "average.tmp" / "notes"), "mine");
  EXPECT_EQ(entries(base_), 4U) << "source.model, checkpoints, average.tmp and average";
}

TEST_F(AverageTest, AverageRefusesMismatchedInputs) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  CheckpointContent other = content(2);
  other.weights[0].tensor = ConstTensor(weights_.data(), {100, 40}, DType::f32);
  store.save(other);
  EXPECT_THAT([&] { average_checkpoints(store.list(), base_ / "a"); },
              ThrowsMessage<Failure>(HasSubstr("tensor 'w' is f32 [100, 40], expected f32 [40, 100]")));
  EXPECT_THAT([&] { average_checkpoints({}, base_ / "a"); }, ThrowsMessage<UsageFailure>(HasSubstr("at least one")));
  EXPECT_THAT([&] { average_checkpoints(store.list(), base_); },
              ThrowsMessage<UsageFailure>(HasSubstr("exists already")));
  other.weights.push_back({"v", ConstTensor(weights_.data(), {1}, DType::f32)});
  store.save(other);
  EXPECT_THAT([&] { average_checkpoints(store.list(), base_ / "a"); },
              ThrowsMessage<Failure>(HasSubstr("has 1 tensors")));
  EXPECT_FALSE(fs::exists(base_ / "a"));
}

}  // namespace
}  // namespace babelring
