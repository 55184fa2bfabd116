#include "nmt/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "base/work_folder.h"
#include "tests/nmt/checkpoint/poison.h"
#include "tests/nmt/checkpoint/store_fixture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CheckpointTest : public StoreTest {};

TEST_F(CheckpointTest, SumsAreReadableBySha256sum) {
  CheckpointStore store(folder_, 3);
  const auto saved = store.save(content(1)).saved;
  const std::string command = "cd '" + saved.folder + "' && sha256sum --strict --status -c SHA256SUMS";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(CheckpointTest, TheStateHasTheDigestsOfTheWeights) {
  CheckpointStore store(folder_, 3);
  const fs::path saved = store.save(content(1)).saved.folder;
  const WeightsDigest digest = load_checkpoint(saved)->weights_digest;
  EXPECT_EQ(digest, digest_of_weights(content(1).weights));
  EXPECT_EQ(digest.parameters.at("w"), Sha256().add(weights_.data(), 16000).hex());
}

TEST_F(CheckpointTest, OlderCheckpointsHaveNoDigestsOfWeights) {
  CheckpointStore store(folder_, 3);
  const fs::path saved = store.save(content(1)).saved.folder;
  const std::string before = read_file(saved / "state.json");
  json::object document = parse_json(before)->as_object();
  document.erase("weights");
  const std::string older = to_text(document) + "\n";
  write_file_atomically(saved / "state.json", older);
  std::string sums = read_file(saved / "SHA256SUMS");
  sums.replace(sums.find(sha256_hex(before)), 64, sha256_hex(older));
  write_file_atomically(saved / "SHA256SUMS", sums);
  const Result<Checkpoint> checkpoint = load_checkpoint(saved);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error();
  EXPECT_EQ(checkpoint->weights_digest, WeightsDigest());
}

TEST_F(CheckpointTest, TornFilesAreFoundAtEveryStep) {
  CheckpointStore store(folder_, 2);
  const auto saved = store.save(content(1)).saved;
  for (const char* name : {"weights.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS", "spm.model"}) {
    const fs::path file = fs::path(saved.folder) / name;
    const std::string whole = read_file(file);
    for (std::size_t length = 0; length < whole.size(); length += 4096) {
      std::ofstream(file, std::ios::binary) << whole.substr(0, length);
      const auto loaded = load_checkpoint(saved.folder);
      ASSERT_FALSE(loaded.ok()) << name << " " << length;
      EXPECT_THAT(loaded.error(), HasSubstr(name));
    }
    std::ofstream(file, std::ios::binary) << whole + "x";
    EXPECT_FALSE(load_checkpoint(saved.folder).ok()) << name << " with a byte more";
    std::ofstream(file, std::ios::binary) << whole;
  }
  EXPECT_TRUE(load_checkpoint(saved.folder).ok());
}

TEST_F(CheckpointTest, ThousandBitFlipsAreAllFound) {
  CheckpointStore store(folder_, 2);
  const auto saved = store.save(content(1)).saved;
  std::vector<fs::path> files;
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(saved.folder)) {
    files.push_back(entry.path());
    total += entry.file_size();
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const fs::path& file = files[random() % files.size()];  // small files as often as large ones
    const std::uintmax_t bit = random() % (8 * fs::file_size(file));
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto flip = [&] {
      stream.seekg(static_cast<std::streamoff>(bit / 8));
      const int byte = stream.get() ^ (1 << (bit % 8));
      stream.seekp(static_cast<std::streamoff>(bit / 8));
      stream.put(static_cast<char>(byte));
      stream.flush();
    };
    flip();
    ASSERT_FALSE(load_checkpoint(saved.folder).ok()) << file << " bit " << bit;
    flip();
  }
  EXPECT_TRUE(load_checkpoint(saved.folder).ok());
  EXPECT_GT(total, 32000U);
}

TEST_F(CheckpointTest, DamageIsNamed) {
  CheckpointStore store(folder_, 2);
  const fs::path folder = store.save(content(1)).saved.folder;
  std::fstream(folder / "weights.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(5000).put('x');
  EXPECT_THAT(load_checkpoint(folder).error(),
              testing::AllOf(HasSubstr("checkpoint update-00000001: "), HasSubstr("weights.safetensors: SHA-256 is ")));
  EXPECT_TRUE(load_checkpoint(folder, Verify::sizes).ok());
  EXPECT_FALSE(load_checkpoint(folder, Verify::model).ok());
  write_file_atomically(folder / "state.json", R"({"format":2})");
  EXPECT_THAT(load_checkpoint(folder).error(), HasSubstr("not a checkpoint's state: format 2, expected 1"));
  write_file_atomically(folder / "state.json", "[]");
  EXPECT_THAT(load_checkpoint(folder).error(), HasSubstr("not a checkpoint's state"));
  EXPECT_THAT(load_checkpoint(base_ / "absent").error(), HasSubstr("state.json: No such file or directory"));
}

TEST_F(CheckpointTest, UnsafeFileNamesAreRefused) {
  CheckpointStore store(folder_, 2);
  for (const char* name : {"../x", "a/b", "state.json", "SHA256SUMS", "weights.safetensors", "", ".x", "a b"}) {
    CheckpointContent bad = content(1);
    bad.texts = {{name, "x"}};
    EXPECT_THAT([&] { store.save(bad); },
                ThrowsMessage<Failure>(std::string("checkpoint: '") + name + "' is not a new file name"));
  }
  EXPECT_EQ(entries(folder_), 0U) << "failed writes leave nothing";
}

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

TEST_F(AverageTest, InterpolationsHaveTheBitsOfTheEndsAndLieBetweenThem) {
  CheckpointStore store(folder_, 5);
  weights_[0] = -0.0f;
  store.save(content(1));
  const std::vector<float> base = weights_;
  for (float& weight : weights_) weight = 3 * weight + 1;
  weights_[1] = -0.0f;
  const std::vector<float> tuned = weights_;
  store.save(content(2));
  const fs::path first = folder_ / "update-00000001", second = folder_ / "update-00000002";
  const auto values_at = [&](double alpha, const char* name) {
    const Checkpoint made = interpolate_checkpoints(first, second, alpha, base_ / name);
    const TensorFiles reader = made.weights();
    const auto* values = reader.tensor("w", {40, 100}).as<float>();
    return std::vector<float>(values, values + base.size());
  };
  const auto same_bits = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same_bits(values_at(0, "start"), base));
  EXPECT_TRUE(same_bits(values_at(1, "end"), tuned));
  const std::vector<float> middle = values_at(0.5, "middle"), near = values_at(0.3, "near");
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double a = static_cast<double>(base[i]), b = static_cast<double>(tuned[i]);
    ASSERT_EQ(middle[i], static_cast<float>((a + b) / 2)) << i;
    ASSERT_EQ(near[i], static_cast<float>((1 - 0.3) * a + 0.3 * b)) << i;
  }
  const Checkpoint made = load_checkpoint(base_ / "near").value();
  EXPECT_EQ(made.update, 2);
  EXPECT_EQ(to_text(made.state.at("interpolated_from")),
            R"({"base":"update-00000001","tuned":"update-00000002","alpha":0.3})");
  EXPECT_EQ(read_file(made.folder / "spm.model"), "spm");
  EXPECT_FALSE(fs::exists(made.folder / "optimizer.safetensors"));
}

TEST_F(AverageTest, InterpolationRefusesOtherShapesAndExistingFolders) {
  CheckpointStore store(folder_, 5);
  store.save(content(1));
  CheckpointContent other = content(2);
  other.weights[0].tensor = ConstTensor(weights_.data(), {100, 40}, DType::f32);
  store.save(other);
  const fs::path first = folder_ / "update-00000001", second = folder_ / "update-00000002";
  EXPECT_THAT([&] { interpolate_checkpoints(first, second, 0.5, base_ / "a"); },
              ThrowsMessage<Failure>(HasSubstr("tensor 'w' is f32 [100, 40], expected f32 [40, 100]")));
  EXPECT_THAT([&] { interpolate_checkpoints(first, first, 0.5, folder_); },
              ThrowsMessage<UsageFailure>(HasSubstr("interpolate: ")));
  EXPECT_FALSE(fs::exists(base_ / "a"));
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
