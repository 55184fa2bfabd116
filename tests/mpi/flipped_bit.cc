#include <fmt/format.h>

#include "lab/probe/probe_compare.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "nmt/train/update/divergence.h"
#include "tests/lab/probe/flips_bit.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/trained_rank.h"

/// Trains on a ring, and flips one bit of a weight of rank 1 before update 3. Rank 0 prints how the run ended and the
/// first difference between the probes of that update.
///
///   mpirun -np 2 flipped_bit
namespace babelring {
namespace {

constexpr std::int64_t flipped_before = 3;

TrainConfig probed_config() {
  TrainConfig config = small_config();
  config.data.valid_set.clear();
  config.training.stop_after = "6u";
  config.communication.all_reduce = AllReduceAlgorithm::ring;
  config.lab.probe.at = "3u";
  config.lab.probe.tensors = "*/start/*";
  return config;
}

/// Returns why the run ended; empty: it reached its end.
std::string train(const TrainConfig& config, Communicator& communicator, const std::filesystem::path& folder) {
  const Corpus corpus = make_synthetic({.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces});
  const auto backend = make_cpu_backend(1);
  Collector records;
  const StopRequest stop;
  RunProbe probe(config, {folder, 20, communicator.rank(), records}, corpus.digest());
  FlipsBit lab(probe, communicator.rank() == 1 ? flipped_before : 0);
  TextSource source(corpus, config.plan_options());
  try {
    run_rank({.config = config,
              .backend = *backend,
              .communicator = communicator,
              .source = source,
              .records = records,
              .stop = stop,
              .lab = &lab});
  } catch (const RanksDiffer& failure) {
    return failure.what();
  }
  return "";
}

void compare_ranks(const std::filesystem::path& folder) {
  const auto probe = [&](int rank) {
    return read_probe(folder / fmt::format("probe-update-00000003-rank-{}.jsonl", rank));
  };
  const Probe a = probe(0), b = probe(1);
  const ProbeComparison comparison = compare_probes(a, b, {.ranks = true});
  if (!comparison.first) return fmt::print("probes: {}\n", name_of(comparison.sameness));
  const RecordPair& first = comparison.pairs[*comparison.first];
  fmt::print("probes: {}, element {}, {} ULP\n", first.record().key(), first.element, first.distance.worst.ulp);
}

void run() {
  const TrainConfig config = probed_config();
  const auto communicator = make_mpi_communicator(config.comm_options());
  const TemporaryFolder own;
  const std::filesystem::path folder = communicator->all_gather(own.path().string())[0];
  const std::string end = train(config, *communicator, folder);
  communicator->barrier();
  if (communicator->rank() == 0) {
    fmt::print("rank 0: {}\n", end);
    compare_ranks(folder);
  }
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    babelring::MpiSession mpi(argc, argv, std::chrono::seconds(120));
    babelring::run();
    mpi.finalize(std::chrono::seconds(120), 0);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "flipped_bit: {}\n", failure.what());
    babelring::abort_mpi(1);
  }
}
