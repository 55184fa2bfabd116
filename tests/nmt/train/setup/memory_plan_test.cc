#include "nmt/train/setup/memory_plan.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/failure.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/text_source.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t gib = std::size_t{1} << 30;

/// A batch of `sentences` sentences of equal length on each side.
PackedBatch batch_of(std::int64_t sentences, std::int64_t source_tokens, std::int64_t target_tokens) {
  PackedBatch batch;
  const auto fill = [&](PackedSequences& side, std::int64_t tokens) {
    side.ids.assign(static_cast<std::size_t>(tokens), 3);
    for (std::int64_t i = 1; i <= sentences; ++i) {
      side.offsets.push_back(static_cast<std::int32_t>(i * tokens / sentences));
    }
  };
  fill(batch.source, source_tokens);
  fill(batch.target_in, target_tokens);
  batch.target_out = batch.target_in.ids;
  return batch;
}

/// A dry run gives exactly the memory of a real pass.
TEST(DryRun, EqualsTheMemoryOfARealPass) {
  for (const auto& [norm, modern] : {std::pair{NormPosition::pre, false},
                                     {NormPosition::post, false},
                                     {NormPosition::pre, true},
                                     {NormPosition::post, true}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      ModelConfig config = small_config().model;
      if (modern) config = with_modern_layers(config);
      config.norm = norm;
      const bool emulated = norm == NormPosition::pre && dtype == DType::bf16;
      const auto backend = make_test_backend(emulated ? "emulated" : "closed");
      Transformer model(config, pieces, 0.1f, *backend, dtype);
      model.initialize(*backend, 1);
      ActivationArenas arenas(*backend);
      Context context = arenas.begin(dtype);
      context.training = true;
      const PackedBatch batch = batch_of(7, 130, 200);
      model.add_gradients(context, DeviceBatch(*backend, context.saved, batch), 1);
      const ArenaBytes need = dry_run(model, *backend, 130, 200);
      EXPECT_EQ(need.saved, arenas.saved().peak_bytes()) << static_cast<int>(norm) << modern;
      EXPECT_EQ(need.scratch, arenas.scratch().peak_bytes()) << static_cast<int>(norm) << modern;
    }
  }
}

/// A device has larger logit chunks than the CPU, and makes them equal. The need must not shrink when one more token
/// adds a chunk, because arenas are reserved for the max number of tokens.
TEST(DryRun, UsesTheBackendsLogitChunks) {
  constexpr std::int64_t vocabulary = 32'000, row_bytes = vocabulary * 2;
  ModelConfig config = small_config().model;
  config.width = config.inner = 16;
  config.heads = 1;
  const auto memory = make_dry_backend();
  const Transformer model(config, vocabulary, 0.1f, *memory, DType::bf16);
  const auto logits_of = [&](Backend& backend, std::int64_t tokens) {
    return static_cast<std::int64_t>(dry_run(model, backend, 16, tokens).scratch) / row_bytes;
  };
  const auto cpu = make_cpu_backend(1), device = make_test_backend("emulated");
  const std::int64_t max_rows = device->loss_chunks().max_rows(row_bytes);
  ASSERT_GT(max_rows, 4000);  // 1/32 of the emulated GPU's 8 GiB
  EXPECT_EQ(logits_of(*cpu, 4000), (160 << 20) / row_bytes);
  EXPECT_EQ(logits_of(*device, 4000), 4000);
  EXPECT_EQ(logits_of(*device, max_rows), max_rows);
  EXPECT_EQ(logits_of(*device, max_rows + 1), max_rows);
}

/// On the CPU, rows of 4 KiB are padded for its caches. On a GPU, rows stay aligned to 128 bytes.
TEST(DryRun, PadsRowsLikeARealPass) {
  for (const char* name : {"cpu", "closed", "emulated"}) {
    const auto backend = make_test_backend(name);
    const auto dry = make_dry_backend({}, backend.get());
    for (Backend* one : {backend.get(), dry.get()}) {
      ActivationArenas arenas(*one);
      Context context = arenas.begin(DType::bf16);
      EXPECT_EQ(context.saved.make_rows(3, 2048, DType::bf16).contiguous(), name != std::string("cpu"));
      EXPECT_EQ(context.scratch.make_rows(3, 2048, DType::bf16).contiguous(), name != std::string("cpu"));
    }
  }
}

/// The reservation keeps a device's arenas from growing with every slightly larger batch.
TEST(DryRun, BoundsAnEvaluationFromAbove) {
  constexpr std::int64_t tokens = 512;
  const auto backend = make_dry_backend();
  const ParameterMemory weights{.weights = [&](std::size_t bytes) { return backend->allocate(bytes); },
                                .gradients = {}};
  const Transformer model(small_config().model, pieces, 0.1f, weights, DType::f32);
  const ArenaBytes need = dry_run_evaluation(model, *backend, tokens);
  ActivationArenas arenas(*backend);
  for (const int longest : {2, 40}) {
    const Corpus corpus = make_synthetic({.sentences = 300, .vocabulary_size = pieces, .max_length = longest});
    for (const PackedBatch& batch : sequential_batches(corpus, 0, corpus.sentences(), tokens)) {
      Context context = arenas.begin(DType::f32);
      const DeviceBatch on_device(*backend, context.saved, batch);
      model.evaluate(context, on_device, context.saved.make(on_device.target_out.shape, DType::i32));
    }
  }
  EXPECT_LE(arenas.saved().peak_bytes(), need.saved);
  EXPECT_LE(arenas.scratch().peak_bytes(), need.scratch);
  EXPECT_GT(arenas.saved().peak_bytes(), need.saved * 9 / 10);
}

/// The estimate for a run equals the memory of an update, also with R-Drop's two passes and an average of the weights.
TEST(EstimateMemory, EqualsTheMemoryOfAnUpdate) {
  constexpr std::int64_t ranks = 2, source = 130, target = 200;
  for (const auto& [dtype, twice] : {std::pair{DType::f32, false}, {DType::bf16, false}, {DType::bf16, true}}) {
    TrainConfig config = small_config();
    config.training.precision = dtype;
    config.training.r_drop = twice ? 2 : 0;
    config.training.ema = twice ? 0.9 : 0;
    config.data.tokens_per_update = ranks * target;
    const MemoryEstimate estimate = estimate_memory(config, pieces, ranks, static_cast<double>(source) / target);
    EXPECT_EQ(estimate.source_tokens, source);
    EXPECT_EQ(estimate.target_tokens, target);

    const auto backend = make_cpu_backend(1);
    Transformer model(config.model, pieces, 0.1f, *backend, dtype);
    model.initialize(*backend, 1);
    model.set_r_drop(static_cast<float>(config.training.r_drop));
    ActivationArenas arenas(*backend);
    Context context = arenas.begin(dtype);
    context.training = true;
    const PackedBatch batch = batch_of(7, source, target);
    model.add_gradients(context, DeviceBatch(*backend, context.saved, batch), 1);
    const std::int64_t parameters = model.parameters().count();
    EXPECT_EQ(estimate.parameters, parameters);
    EXPECT_EQ(estimate.weights, parameters * (dtype == DType::bf16 ? 6 : 4));
    EXPECT_EQ(estimate.gradients, parameters * 4);
    EXPECT_EQ(estimate.moments, parameters * (twice ? 12 : 8));
    EXPECT_EQ(estimate.activations, static_cast<std::int64_t>(arenas.saved().peak_bytes()));
    EXPECT_EQ(estimate.scratch, static_cast<std::int64_t>(arenas.scratch().peak_bytes()));
    EXPECT_EQ(estimate.total(),
              estimate.weights + estimate.gradients + estimate.moments + estimate.activations + estimate.scratch);
  }
}

TEST(EstimateMemory, AssumesALargeGpuIfItIsConfigured) {
  const auto device = make_test_backend("emulated"), memory = make_dry_backend();
  TrainConfig config = small_config();
  config.training.device = DeviceChoice::cuda;
  config.training.precision = DType::bf16;
  config.data.tokens_per_update = 3000;
  const MemoryEstimate estimate = estimate_memory(config, pieces, 1, 2);
  const Transformer model(config.model, pieces, 0.1f, *memory, DType::bf16);
  const ArenaBytes need = dry_run(model, *device, 6000, 3000);
  EXPECT_EQ(estimate.activations, static_cast<std::int64_t>(need.saved));
  EXPECT_EQ(estimate.scratch, static_cast<std::int64_t>(need.scratch));
}

TEST(EstimateMemory, AppliesTheMicroBatchLimit) {
  TrainConfig config = small_config();
  config.data.tokens_per_update = 10'001;
  const MemoryEstimate whole = estimate_memory(config, pieces, 4, 1.5);
  EXPECT_EQ(whole.target_tokens, 2501);
  EXPECT_EQ(whole.source_tokens, 3752);
  config.data.micro_batch_tokens = 3000;
  const MemoryEstimate limited = estimate_memory(config, pieces, 4, 1.5);
  EXPECT_EQ(limited.target_tokens, 2501);
  EXPECT_EQ(limited.source_tokens, 3000);
  EXPECT_LT(limited.activations, whole.activations);
  EXPECT_EQ(limited.weights, whole.weights);
}

TEST(EstimateMemory, CountsAGradientForEachLevelOfTheTree) {
  TrainConfig config = small_config();
  config.data.tokens_per_update = 8000;
  const MemoryEstimate whole = estimate_memory(config, pieces, 2, 1);
  config.training.reproducible = Reproducible::ranks;
  const MemoryEstimate by_units = estimate_memory(config, pieces, 2, 1);
  EXPECT_EQ(by_units.target_tokens, 1000);
  EXPECT_EQ(by_units.gradients, 3 * whole.gradients) << "4 units a rank";
  EXPECT_EQ(estimate_memory(config, pieces, 8, 1).gradients, whole.gradients);
}

/// The models and updates that a configuration may ask for can exceed any memory.
TEST(EstimateMemory, NeedsLittleMemoryItself) {
  TrainConfig config = small_config();
  config.model = model_preset("transformer-big");
  config.model.encoder_layers = config.model.decoder_layers = 100;
  config.data.tokens_per_update = 1'000'000;
  const MemoryEstimate estimate = estimate_memory(config, 50'000, 1, 1);
  EXPECT_GT(estimate.parameters, 2'000'000'000);
  EXPECT_GT(estimate.total(), std::int64_t{1} << 40);
  config.data.tokens_per_update = std::int64_t{1} << 40;
  EXPECT_THAT([&] { estimate_memory(config, 50'000, 1, 1); },
              ThrowsMessage<Failure>(HasSubstr("a micro-batch of 1099511627776 tokens is larger than 16777216; lower "
                                               "data.tokens_per_update or data.micro_batch_tokens")));
}

class PlanMemory : public testing::Test {
 protected:
  PlanMemory() {
    config_.data.micro_batch_tokens = DataConfig::automatic;
    config_.data.tokens_per_update = 1'000'000;
    config_.data.max_length = 20;
  }
  /// The plan of this rank on a device with memory `room`.
  MemoryPlan plan(const MemoryInfo& room, Communicator& communicator) const {
    const auto backend = make_dry_backend(room);
    const TextSource updates(corpus_, {.tokens_per_update = config_.data.tokens_per_update, .max_length = 20});
    return plan_memory(config_, updates.shape(), model(), *backend, communicator);
  }
  /// Memory of a 4 GiB GPU that has `bytes` for arenas after the margins.
  static MemoryInfo room_for(std::size_t bytes) {
    return {.free = static_cast<std::size_t>(4 * gib * memory_margin) + device_margin_bytes + bytes, .total = 4 * gib};
  }
  static const Transformer& model() {
    static const auto backend = make_dry_backend();
    static const Transformer transformer(small_config().model, pieces, 0.1f, *backend, DType::f32);
    return transformer;
  }
  static std::size_t need_of(std::int64_t tokens) {
    const ArenaBytes need = dry_run(model(), *make_dry_backend(), tokens, tokens);
    return need.saved + need.scratch;
  }

  TrainConfig config_ = small_config();
  Corpus corpus_ = make_synthetic({.sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  std::unique_ptr<Communicator> alone_ = make_single_communicator();
};

TEST_F(PlanMemory, UsesAllMemoryExceptTheMargins) {
  for (const std::size_t bytes : {std::size_t{3} << 20, std::size_t{100} << 20}) {
    const MemoryPlan found = plan(room_for(bytes), *alone_);
    EXPECT_LE(need_of(found.micro_batch_tokens), bytes);
    EXPECT_GT(need_of(found.micro_batch_tokens + found.micro_batch_tokens / 50 + 32), bytes);
    EXPECT_LE(found.need.saved + found.need.scratch, bytes);
    EXPECT_THAT(found.answer, AllOf(HasSubstr("data.micro_batch_tokens: auto: "),
                                    HasSubstr(std::to_string(found.micro_batch_tokens) + " tokens")));
  }
}

TEST_F(PlanMemory, UsesOnePassIfAnUpdateFits) {
  config_.data.tokens_per_update = 600;
  const MemoryPlan found = plan(room_for(gib), *alone_);
  EXPECT_GE(found.micro_batch_tokens, 660);
  EXPECT_LT(found.micro_batch_tokens, 1000);
}

TEST_F(PlanMemory, IsTheSameOnAllRanks) {
  const std::size_t smallest = std::size_t{5} << 20;
  ThreadGroup group(3);
  std::vector<std::int64_t> tokens(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const std::size_t own = rank == 1 ? smallest : gib;
      tokens[static_cast<std::size_t>(rank)] = plan(room_for(own), *communicator).micro_batch_tokens;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tokens, std::vector<std::int64_t>(3, tokens[1]));
  EXPECT_LE(need_of(tokens[0]), smallest);
  EXPECT_GT(need_of(2 * tokens[0]), smallest);
}

TEST_F(PlanMemory, FailsInOneLine) {
  EXPECT_THAT(
      [&] { plan(room_for(1000), *alone_); },
      ThrowsMessage<UsageFailure>(AllOf(HasSubstr("data.micro_batch_tokens: auto: a sentence of 20 tokens "
                                                  "(data.max_length) needs "),
                                        HasSubstr("a rank may use 1000: "), HasSubstr(" of 4294967296 bytes are"))));
  EXPECT_THAT([&] { plan({}, *alone_); }, ThrowsMessage<UsageFailure>(HasSubstr("give a number")));
}

TEST_F(PlanMemory, KeepsAGivenNumber) {
  config_.data.micro_batch_tokens = 300;
  const MemoryPlan found = plan({}, *alone_);
  EXPECT_EQ(found.micro_batch_tokens, 300);
  EXPECT_EQ(found.answer, "");
  EXPECT_EQ(found.need.saved + found.need.scratch, need_of(300));
}

/// Sequences are divided among ranks by number, so that no margin is needed.
TEST_F(PlanMemory, ReservesForThePartOfSequencesWithTheMost) {
  config_.task = Task::gssm;
  config_.data.micro_batch_tokens = 0;
  const UpdateShape shape{.max_length = 20, .source_tokens = 0, .target_tokens = 7 * 20};
  const auto need = [&](Communicator& communicator) {
    return plan_memory(config_, shape, model(), *make_dry_backend(room_for(gib)), communicator).need.saved;
  };
  EXPECT_EQ(need(*alone_), dry_run(model(), *make_dry_backend(), 0, 140, 7).saved);
  ThreadGroup group(2);
  std::thread other([&] { need(*group.rank(1)); });
  EXPECT_EQ(need(*group.rank(0)), dry_run(model(), *make_dry_backend(), 0, 80, 4).saved);
  other.join();
}

TEST_F(PlanMemory, UsesHostMemoryOnTheCpu) {
  const auto backend = make_cpu_backend(1);
  const TextSource updates(corpus_, {.tokens_per_update = 600, .max_length = 20});
  config_.data.tokens_per_update = 600;
  const MemoryPlan found = plan_memory(config_, updates.shape(), model(), *backend, *alone_);
  EXPECT_GE(found.micro_batch_tokens, 660);  // a few megabytes are free
  EXPECT_EQ(found.need.saved, dry_run(model(), *backend, 680, 680).saved) << "growing arenas take more";
  config_.data.micro_batch_tokens = 0;
  EXPECT_EQ(plan_memory(config_, updates.shape(), model(), *backend, *alone_).need.saved, 0U);
}

TEST_F(PlanMemory, RefusesAModelThatNoHostHolds) {
  config_.model.width = config_.model.inner = 1 << 16;
  const auto cpu = make_cpu_backend(1);
  EXPECT_THAT(
      [&] { require_room_for_model(config_, pieces, *cpu, *alone_); },
      ThrowsMessage<UsageFailure>(AllOf(HasSubstr("data.micro_batch_tokens: auto: a model of "),
                                        HasSubstr("bytes on a host, with a checkpoint's copy; its ranks may use "))));
  EXPECT_NO_THROW(require_room_for_model(config_, pieces, *make_dry_backend(), *alone_)) << "a device refuses itself";
  config_.data.micro_batch_tokens = 0;
  EXPECT_NO_THROW(require_room_for_model(config_, pieces, *cpu, *alone_));
}

}  // namespace
}  // namespace babelring
