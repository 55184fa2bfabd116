#include "nmt/checkpoint/quantized_weights.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "base/failure.h"
#include "base/names.h"
#include "nmt/ops/elementwise.h"
#include "tests/nmt/checkpoint/store_fixture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class QuantizedWeightsTest : public StoreTest {
 protected:
  QuantizedWeightsTest() {
    model_.initialize(*backend_, 3);
    fs::create_directories(base_ / "first");
    checkpoint_ = write(base_ / "first");
  }

  Checkpoint write(const fs::path& folder) const {
    CheckpointContent content{.update = 5};
    for (const Parameter& parameter : model_.parameters().all()) {
      content.weights.push_back({parameter.name, parameter.master});
    }
    write_checkpoint_files(content, folder);
    return load_checkpoint(folder).value();
  }
  fs::path file() const { return checkpoint_.folder / quantized_file_name; }

  /// The bytes of all weights of a model of int8 that reads `checkpoint`.
  std::string weights_of(const Checkpoint& checkpoint) {
    ParameterMemory memory = parameter_memory_of(*backend_);
    memory.gradients = {};
    Transformer model(config_, 29, 0.0f, memory, DType::int8);
    read_quantized_weights(checkpoint, model, *backend_);
    return bytes_of(model);
  }
  static std::string bytes_of(const Model& model) {
    std::string bytes;
    const auto add = [&](const ConstTensor& tensor) { bytes.append(tensor.as<char>(), tensor.bytes()); };
    for (const Parameter& parameter : model.parameters().all()) {
      if (parameter.read_as_f32()) {
        add(parameter.master);
      } else {
        EXPECT_FALSE(parameter.master || parameter.compute) << parameter.name;
        add(parameter.quantized.elements), add(parameter.quantized.scales), add(parameter.quantized.sums);
      }
    }
    return bytes;
  }

  const ModelConfig config_{.encoder_layers = 1, .decoder_layers = 2, .width = 20, .heads = 2, .inner = 70};
  const std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  Transformer model_{config_, 29, 0, *backend_, DType::f32};
  Checkpoint checkpoint_;
};

TEST_F(QuantizedWeightsTest, AreThoseOfTheModelAndKeptInAFile) {
  const std::string expected = bytes_of(*quantized_copy(model_, *backend_));
  EXPECT_EQ(weights_of(checkpoint_), expected);
  ASSERT_TRUE(fs::exists(file()));
  const auto written = fs::last_write_time(file());
  EXPECT_EQ(weights_of(checkpoint_), expected);
  EXPECT_EQ(fs::last_write_time(file()), written) << "it is read, not written again";
  EXPECT_EQ(load_checkpoint(checkpoint_.folder).value().files.size(), checkpoint_.files.size());
}

TEST_F(QuantizedWeightsTest, ADamagedFileAndOneOfOtherWeightsAreReplaced) {
  const std::string expected = weights_of(checkpoint_);
  const std::string good = read_file(file());
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  for (const std::string& content : {flipped, good.substr(0, good.size() / 2), std::string("{}")}) {
    write_file_atomically(file(), content);
    EXPECT_EQ(weights_of(checkpoint_), expected);
    EXPECT_EQ(read_file(file()), good);
  }
  model_.initialize(*backend_, 4);
  fs::create_directories(base_ / "second");
  const Checkpoint other = write(base_ / "second");
  fs::copy_file(file(), other.folder / quantized_file_name);
  EXPECT_EQ(weights_of(other), bytes_of(*quantized_copy(model_, *backend_)));
  EXPECT_NE(read_file(other.folder / quantized_file_name), good);
}

TEST_F(QuantizedWeightsTest, FromBf16AreThoseOfTheWidenedWeights) {
  const auto bf16 = std::make_unique<Transformer>(model_.config(), model_.vocabulary(), 0.0f, *backend_, DType::bf16);
  bf16->initialize(*backend_, 4);
  Transformer widened(model_.config(), model_.vocabulary(), 0.0f, *backend_, DType::f32);
  for (const Parameter& parameter : bf16->parameters().all()) {
    const Parameter& to = widened.parameters().all()[parameter.index];
    backend_->run(
        Cast{.x = parameter.read_as_f32() ? ConstTensor(parameter.master) : parameter.compute, .y = to.master});
  }
  EXPECT_EQ(bytes_of(*quantized_copy(*bf16, *backend_)), bytes_of(*quantized_copy(widened, *backend_)));
}

TEST_F(QuantizedWeightsTest, StayInMemoryWhereTheFileCannotBeWritten) {
  const std::string expected = weights_of(checkpoint_);
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_EQ(weights_of(checkpoint_), expected);
  EXPECT_TRUE(fs::is_directory(file()));
}

TEST_F(QuantizedWeightsTest, OnesThatAreNotFiniteAreRefused) {
  const Tensor weight = model_.parameters().all()[0].master;
  const std::string path = (checkpoint_.folder / "weights.safetensors").string();
  std::string bytes = read_file(path);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.find(std::string(weight.as<char>(), 32)), &nan, sizeof nan);
  write_file_atomically(path, bytes);
  EXPECT_THAT([&] { weights_of(checkpoint_); },
              ThrowsMessage<Failure>(path + ": weights are not finite: " + model_.parameters().all()[0].name +
                                     "[0, 0] is nan"));
}

}  // namespace
}  // namespace babelring
