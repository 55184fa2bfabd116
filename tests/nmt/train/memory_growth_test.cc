#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "nmt/data/text_source.h"
#include "nmt/ops/backend.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"

namespace babelring {
namespace {

constexpr double megabyte = 1e6;

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Records resident memory after update 20, when all code has run once, and after the last update.
class MemorySink : public RecordSink {
 public:
  void write(RecordBody body) override {
    const auto* step = std::get_if<StepRecord>(&body);
    if (step == nullptr) return;
    if (step->update == 20) early = resident_bytes();
    late = resident_bytes();
    if (step->update == 20) known_early = step->memory_bytes;
    known_late = step->memory_bytes;
  }
  double early = 0, late = 0;
  std::map<std::string, std::int64_t> known_early, known_late;
};

class MemoryGrowth : public testing::TestWithParam<DType> {};

/// Every update has a different number of tokens. Memory must not accumulate per size.
TEST_P(MemoryGrowth, IsBoundedForVaryingLengths) {
  TrainConfig config = small_config();
  config.model.width = 64;
  config.model.inner = 128;
  config.training.precision = GetParam();
  config.training.stop_after = "200u";
  config.training.digest_every = "0u";
  config.data.tokens_per_update = 1500;
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::copy, .sentences = 4000, .vocabulary_size = pieces, .max_length = 100});
  const auto communicator = make_single_communicator();
  const auto backend = make_cpu_backend(1);
  if (config.training.precision == DType::bf16) {
    try {
      require_matmul(*backend, DType::bf16, "f32");
    } catch (const Failure& failure) {
      GTEST_SKIP() << failure.what();
    }
  }
  MemorySink records;
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  run_rank({.config = config,
            .backend = *backend,
            .communicator = *communicator,
            .source = source,
            .records = records,
            .stop = stop});
  ASSERT_GT(records.early, 0);
  for (const auto purpose : {MemoryPurpose::weights, MemoryPurpose::gradients, MemoryPurpose::moments,
                             MemoryPurpose::communication, MemoryPurpose::data, MemoryPurpose::decoding}) {
    const std::string name(name_of(purpose));
    EXPECT_EQ(records.known_late.at(name), records.known_early.at(name)) << name;
  }
  EXPECT_LT(records.late - records.early, 60 * megabyte) << "after update 20: " << records.early / megabyte << " MB";
}

INSTANTIATE_TEST_SUITE_P(Precisions, MemoryGrowth, testing::Values(DType::f32, DType::bf16));

}  // namespace
}  // namespace babelring
