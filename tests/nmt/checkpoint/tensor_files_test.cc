#include "nmt/checkpoint/tensor_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/failure.h"
#include "base/json.h"
#include "tests/nmt/checkpoint/store_fixture.h"

namespace babelring {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Finite, NamesTheFirstNonFiniteValue) {
  std::vector<float> gain(10, 1), weight(100 * 200, std::numeric_limits<float>::max());
  const std::vector<NamedTensor> tensors = {{"norm.gain", ConstTensor(gain.data(), {10}, DType::f32)},
                                            {"weight", ConstTensor(weight.data(), {100, 200}, DType::f32)}};
  EXPECT_TRUE(check_finite(tensors));
  weight[200 * 57 + 3] = -infinity;
  EXPECT_EQ(check_finite(tensors).error(), "weight[57, 3] is -inf");
  weight.back() = nan;
  EXPECT_EQ(check_finite(tensors).error(), "weight[57, 3] is -inf");
  gain[9] = nan;
  EXPECT_EQ(check_finite(tensors).error(), "norm.gain[9] is nan");
}

TEST(Finite, FindsAValueAtEveryPosition) {
  std::vector<float> values(9000, 0);
  const std::vector<NamedTensor> tensors = {{"w", ConstTensor(values.data(), {9000}, DType::f32)}};
  for (const std::size_t at : {0UL, 1UL, 4095UL, 4096UL, 8191UL, 8192UL, 8999UL}) {
    values[at] = infinity;
    EXPECT_EQ(check_finite(tensors).error(), fmt::format("w[{}] is inf", at));
    values[at] = 0;
  }
}

TEST(Finite, IgnoresOtherTypes) {
  const std::vector<std::int32_t> ids = {0x7fc00000};
  const std::vector<NamedTensor> tensors = {{"ids", ConstTensor(ids.data(), {1}, DType::i32)}};
  EXPECT_TRUE(check_finite(tensors));
}

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A checkpoint of two weights, "a" and "w", each in the shard of a host.
class ShardTest : public StoreTest {
 protected:
  /// Tensor `name` with its moment, in shard `index` of 2.
  CheckpointShard write(const fs::path& folder, int index, const char* name) const {
    const ConstTensor tensor(weights_.data() + 1000 * index, {10, 100}, DType::f32);
    return write_shard(folder, {.index = index, .count = 2}, std::vector<NamedTensor>{{name, tensor}},
                       std::vector<NamedTensor>{{std::string("m.") + name, tensor}});
  }
  /// Writes both shards and completes the checkpoint.
  fs::path save(std::int64_t update, const char* first = "a", const char* second = "w") {
    CheckpointContent content = this->content(update);
    content.weights.clear();
    content.optimizer.clear();
    auto unfinished = store_.begin(update);
    content.shards = {write(unfinished->path(), 0, first), write(unfinished->path(), 1, second)};
    return store_.complete(content, std::move(unfinished), {}).saved.folder;
  }
  /// Replaces text in state.json, and SHA256SUMS with it.
  static void edit_state(const fs::path& folder, const std::string& from, const std::string& to) {
    const std::string before = read_file(folder / "state.json");
    std::string text = before, sums = read_file(folder / "SHA256SUMS");
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(folder / "state.json", text);
    sums.replace(sums.find(sha256_hex(before)), 64, sha256_hex(text));
    write_file_atomically(folder / "SHA256SUMS", sums);
  }

  CheckpointStore store_{folder_, 5};
};

TEST_F(ShardTest, ReadsLikeOneFile) {
  const fs::path folder = save(7);
  const Checkpoint checkpoint = load_checkpoint(folder).value();
  std::vector<std::string> files;
  for (const CheckpointFile& file : checkpoint.files) files.push_back(file.name);
  EXPECT_THAT(files, ElementsAre("weights-00001-of-00002.safetensors", "weights-00002-of-00002.safetensors",
                                 "optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
                                 "spm.model", "config.yaml", "state.json"));
  const TensorFiles weights = checkpoint.weights();
  EXPECT_THAT(weights.names(), ElementsAre("a", "w"));
  EXPECT_EQ(weights.tensor("a", {10, 100}).as<float>()[999], weights_[999]);
  EXPECT_EQ(weights.tensor("w", {10, 100}).as<float>()[0], weights_[1000]);
  EXPECT_TRUE(checkpoint.optimizer().contains("m.w"));
  EXPECT_FALSE(weights.contains("m.w"));
  EXPECT_THAT([&] { static_cast<void>(weights.tensor("b")); },
              ThrowsMessage<Failure>(EndsWith("weights-00001-of-00002.safetensors: no tensor 'b', nor in the other 1 "
                                              "of 2 files")));
  EXPECT_THAT([&] { static_cast<void>(weights.tensor("w", {1000})); },
              ThrowsMessage<Failure>(HasSubstr("weights-00002-of-00002.safetensors: tensor 'w' is f32 [10, 100]")));
}

TEST_F(ShardTest, TheDigestOfTheWeightsDoesNotDependOnShards) {
  const std::vector<NamedTensor> whole = {{"a", ConstTensor(weights_.data(), {10, 100}, DType::f32)},
                                          {"w", ConstTensor(weights_.data() + 1000, {10, 100}, DType::f32)}};
  EXPECT_EQ(load_checkpoint(save(1)).value().weights_digest, digest_of_weights(whole));
}

TEST_F(ShardTest, TheMeanOfShardedAndOtherCheckpointsIsInOneFile) {
  CheckpointContent other = content(2);
  other.weights = {{"w", ConstTensor(weights_.data(), {10, 100}, DType::f32)},
                   {"a", ConstTensor(weights_.data(), {10, 100}, DType::f32)}};
  const fs::path whole = store_.save(other).saved.folder;
  const Checkpoint mean = average_checkpoints({whole, save(3)}, base_ / "average");
  EXPECT_EQ(mean.weights().tensor("w").as<float>()[5], (weights_[5] + weights_[1005]) / 2);
  EXPECT_EQ(mean.weights().tensor("a").as<float>()[5], weights_[5]);
  std::vector<std::string> files;
  for (const CheckpointFile& file : mean.files) files.push_back(file.name);
  EXPECT_THAT(files, ElementsAre("weights.safetensors", "config.yaml", "spm.model", "state.json"));
}

TEST_F(ShardTest, AMissingShardIsNamed) {
  const fs::path folder = save(1);
  fs::remove(folder / "weights-00002-of-00002.safetensors");
  EXPECT_THAT(load_checkpoint(folder).error(),
              HasSubstr("weights-00002-of-00002.safetensors: No such file or directory"));
}

TEST_F(ShardTest, AShardThatIsNotListedIsNamed) {
  const fs::path folder = save(1);
  const std::string listed = "\"weights-00002-of-00002.safetensors\"";
  edit_state(folder, listed, "\"other.safetensors\"");
  EXPECT_THAT(
      load_checkpoint(folder).error(),
      AllOf(HasSubstr("state.json: not a checkpoint's state: "),
            EndsWith("weights-00001-of-00002.safetensors is listed without weights-00002-of-00002.safetensors")));
  edit_state(folder, "\"other.safetensors\"", "\"weights-00002-of-00003.safetensors\"");
  EXPECT_THAT(load_checkpoint(folder).error(),
              EndsWith("weights-00002-of-00003.safetensors is listed beside weights-00001-of-00002.safetensors"));
  edit_state(folder, "\"weights-00002-of-00003.safetensors\"", "\"weights-00001-of-00002.safetensors\"");
  EXPECT_THAT(load_checkpoint(folder).error(), EndsWith("weights-00001-of-00002.safetensors is listed twice"));
  edit_state(folder, "\"weights-00001-of-00002.safetensors\"", "\"weights.safetensors\"");
  EXPECT_THAT(load_checkpoint(folder).error(),
              EndsWith("weights-00001-of-00002.safetensors is listed beside weights.safetensors"));
}

TEST_F(ShardTest, AShardOfAnotherCheckpointIsNamed) {
  const fs::path folder = save(1), other = save(2, "b", "x");  // the same sizes
  fs::copy_file(other / "optimizer-00001-of-00002.safetensors", folder / "optimizer-00001-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(load_checkpoint(folder, Verify::model).ok()) << "moments do not translate";
  EXPECT_THAT(load_checkpoint(folder).error(), HasSubstr("optimizer-00001-of-00002.safetensors: SHA-256 is"));
  fs::copy_file(other / "weights-00002-of-00002.safetensors", folder / "weights-00002-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(load_checkpoint(folder, Verify::model).error(),
              HasSubstr("weights-00002-of-00002.safetensors: SHA-256 is"));
}

TEST_F(ShardTest, ATensorInTwoShardsIsNamed) {
  const Checkpoint checkpoint = load_checkpoint(save(1, "w", "w")).value();
  EXPECT_THAT([&] { checkpoint.weights(); },
              ThrowsMessage<Failure>(EndsWith("weights-00002-of-00002.safetensors: tensor 'w' is in "
                                              "weights-00001-of-00002.safetensors, too")));
}

TEST_F(ShardTest, AWeightThatIsNotFiniteIsNotWritten) {
  weights_[1005] = INFINITY;
  EXPECT_THAT([&] { save(1); }, ThrowsMessage<Failure>("weights are not finite: w[0, 5] is inf"));
  EXPECT_EQ(entries(folder_), 0U);
}

TEST_F(ShardTest, AShardThatRank0DoesNotSeeIsNotListed) {
  CheckpointContent content = this->content(1);
  auto unfinished = store_.begin(1);
  content.shards = {write(unfinished->path(), 0, "a"), write(base_, 1, "w")};
  EXPECT_THAT([&] { store_.complete(content, std::move(unfinished), {}); },
              ThrowsMessage<Failure>(HasSubstr("weights-00002-of-00002.safetensors: No such file or directory")));
  EXPECT_EQ(entries(folder_), 0U);
}

TEST_F(ShardTest, SurvivesTheWayToAnotherRank) {
  const CheckpointShard shard = write(base_, 1, "w");
  const CheckpointShard received = shard_from_json(parse_json(to_text(to_json(shard))).value());
  EXPECT_EQ(received.weights.name, "weights-00002-of-00002.safetensors");
  EXPECT_EQ(received.weights.sha256, shard.weights.sha256);
  EXPECT_EQ(received.optimizer.size, shard.optimizer.size);
  EXPECT_EQ(received.digest, shard.digest);
  EXPECT_GT(received.write_seconds, 0);
}

TEST(ParametersOfShard, HaveTheirShareOfTheBytesInOrder) {
  ParameterStore store;
  for (int i = 0; i < 40; ++i) {
    store.declare("p" + std::to_string(i), i == 0 ? Shape{50, 64} : Shape{1 + i % 3, 64}, Initializer::zeros());
  }
  for (const int shards : {1, 2, 3, 4, 7, 64}) {
    std::size_t at = 0;
    for (int index = 0; index < shards; ++index) {
      const auto [begin, end] = parameters_of_shard(store.all(), {.index = index, .count = shards});
      EXPECT_EQ(begin, at);
      at = end;
      std::int64_t elements = 0, largest = 0;
      for (std::size_t i = begin; i < end; ++i) {
        elements += store.all()[i].shape.elements();
        largest = std::max(largest, store.all()[i].shape.elements());
      }
      EXPECT_LE(elements, store.count() / shards + largest) << index << " of " << shards;
    }
    EXPECT_EQ(at, store.all().size()) << shards;
  }
  EXPECT_EQ(parameters_of_shard({}, {.index = 1, .count = 2}).end, 0U);
}

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string leaf(const std::string& name, const std::string& digest) {
  return sha256_hex(std::string(1, '\0') + name + " " + digest);
}

std::string node(const std::string& left, const std::string& right) {
  return sha256_hex('\1' + left + right);
}

TEST(WeightsDigestTest, TheRootIsThatOfRfc6962OverSortedNames) {
  EXPECT_EQ(merkle_root({}), sha256_hex(""));
  EXPECT_EQ(merkle_root({{"a", "1"}}), leaf("a", "1"));
  const std::string ab = node(leaf("a", "1"), leaf("b", "2")), cd = node(leaf("c", "3"), leaf("d", "4"));
  EXPECT_EQ(merkle_root({{"b", "2"}, {"a", "1"}}), ab);
  EXPECT_EQ(merkle_root({{"a", "1"}, {"b", "2"}, {"c", "3"}}), node(ab, leaf("c", "3")));
  EXPECT_EQ(merkle_root({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}}),
            node(node(ab, cd), leaf("e", "5")));
}

TEST(WeightsDigestTest, DependsOnEveryBitAndEveryName) {
  const std::vector<float> one = {1, 2, 3}, zero = {0, -0.0F};
  const auto digest = [&](const char* name, const float* other) {
    const NamedTensor weights[] = {{"w", ConstTensor(one.data(), Shape{3}, DType::f32)},
                                   {name, ConstTensor(other, Shape{1}, DType::f32)}};
    return digest_of_weights(weights);
  };
  const WeightsDigest a = digest("b", zero.data());
  EXPECT_EQ(a.parameters.at("w"), Sha256().add(one.data(), 12).hex());
  EXPECT_EQ(a, digest("b", zero.data()));
  EXPECT_NE(a.root, digest("b", zero.data() + 1).root);
  EXPECT_NE(a.root, digest("c", zero.data()).root);
}

TEST(WeightsDigestTest, JsonIsReadBackAndChecked) {
  WeightsDigest digest{.parameters = {{"a", "1"}, {"b", "2"}}, .root = ""};
  digest.root = merkle_root(digest.parameters);
  EXPECT_EQ(weights_digest_from_json(to_json(digest)), digest);
  json::object damaged = to_json(digest);
  damaged["parameters"].as_object()["b"] = "3";
  EXPECT_THAT([&] { weights_digest_from_json(damaged); },
              ThrowsMessage<Failure>(HasSubstr("member 'weights': root " + digest.root.substr(0, 12))));
  EXPECT_THAT([] { weights_digest_from_json("text"); },
              ThrowsMessage<Failure>(HasSubstr("expected an object with 'root' and 'parameters'")));
}

}  // namespace

}  // namespace babelring
