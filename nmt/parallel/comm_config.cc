#include "nmt/parallel/comm_config.h"

#include <spdlog/spdlog.h>

#include <set>

#include "nmt/parallel/buckets.h"

namespace babelring {
namespace {

const Choices<AllReduceAlgorithm>& all_reduce_choices() {
  using enum AllReduceAlgorithm;
  static const Choices<AllReduceAlgorithm> choices = {
      {"auto", automatic}, {"shared_memory", shared_memory}, {"two_level", two_level}, {"ring", ring}, {"mpi", mpi},
      {"nccl", nccl},      {"nccl_ring", nccl_ring}};
  return choices;
}

std::int64_t measured_bucket_bytes(std::int64_t gradient_bytes, Communicator& communicator) {
  const AllReduceModel model = measure_all_reduce(communicator);
  const std::int64_t bytes = best_bucket_bytes(gradient_bytes, model, min_measured_bucket_bytes);
  if (communicator.rank() == 0) {
    spdlog::info("gradients: buckets of {:.2f} MB, since a small sum takes {:.2f} ms and a large one {:.0f} MB/s",
                 static_cast<double>(bytes) * 1e-6, model.latency_s * 1e3, model.bytes_per_s * 1e-6);
  }
  return bytes;
}

}  // namespace

void CommConfig::bind(OptionBinder& b) {
  b.choice("all_reduce", all_reduce, all_reduce_choices(),
           "gradient all-reduce: shared_memory (one host), two_level (shared memory within hosts that have equal "
           "numbers of ranks, a tree or ring between hosts), ring (built in, over MPI messages), mpi (MPI_Iallreduce), "
           "nccl (GPUs, NCCL chooses the algorithm) or nccl_ring; auto: NCCL between GPUs that support it, otherwise "
           "shared memory on one host, two levels on hosts with several ranks each, otherwise a tree or ring");
  b.choice("gradient_wire", gradient_wire, wire_choices(),
           "data type in which rings and NCCL send gradients; bf16 halves the traffic but each hop rounds to 8 "
           "bits; int8 halves it again (blocks of 256 with a scale; each host adds its rounding errors to the next "
           "update; not by NCCL); shared memory always uses f32");
  b.number_or("bucket_mb", bucket_mb, 0.001, 4096, "auto", automatic,
              "MB of gradients per all-reduce; auto: from measured latency and rate if the size changes no bit (f32 "
              "between 2, 4, 8, ... hosts), else 4; with NCCL tens, computed from a model of the network");
  b.choice(
      "optimizer", optimizer,
      {{"auto", OptimizerPlacement::automatic},
       {"replicated", OptimizerPlacement::replicated},
       {"sharded", OptimizerPlacement::sharded}},
      "who keeps f32 masters and moments: replicated, every host all of them; sharded, each host a shard, which it "
      "updates and whose bf16 weights (f32 with training.precision f32) it sends to the others while the next update "
      "begins: less memory, and 3/4 of the bytes of f32 gradients, with the same bits; with NCCL each GPU keeps a "
      "shard of the moments; auto: sharded with bf16 weights and f32 gradients between 2, 4, 8, ... hosts without "
      "GPUs, unless checkpoints are less than 30 updates apart");
  b.number("deadline_s", deadline_s, 0.1, 86400,
           "seconds until a stalled collective fails with an error that names the peer");
  b.flag(
      "mixed_onednn", mixed_onednn,
      "train also if the ranks' versions of oneDNN differ, with a warning: in bf16 each adds in its own order, so that "
      "results have other last bits if ranks move to other hosts; false: the run does not start");
}

void CommConfig::check() const {
  using enum AllReduceAlgorithm;
  const bool by_nccl = all_reduce == nccl || all_reduce == nccl_ring;
  if (optimizer == OptimizerPlacement::sharded && all_reduce == mpi) {
    constexpr const char* key = "communication.optimizer";
    throw ConfigError(key, fmt::format("{}: all_reduce {} gives every rank all sums, so sharded saves nothing; use "
                                       "optimizer auto or all_reduce auto",
                                       key, all_reduce_word()));
  }
  const bool refused =
      all_reduce == mpi ? gradient_wire != GradientWire::f32 : by_nccl && gradient_wire == GradientWire::int8;
  if (!refused) return;
  constexpr const char* key = "communication.gradient_wire";
  throw ConfigError(key, fmt::format("{}: all_reduce {} cannot send {}; use all_reduce auto", key, all_reduce_word(),
                                     name_of(gradient_wire)));
}

std::string CommConfig::all_reduce_word() const {
  return word_of(all_reduce_choices(), all_reduce);
}

std::int64_t CommConfig::wanted_bucket_bytes() const {
  return bucket_mb == automatic ? host_bucket_bytes : static_cast<std::int64_t>(bucket_mb * 1e6);
}

CommOptions CommConfig::options() const {
  using enum AllReduceAlgorithm;
  return {.algorithm = all_reduce == nccl || all_reduce == nccl_ring ? automatic : all_reduce,
          .wire = gradient_wire,
          .deadline = std::chrono::milliseconds(static_cast<std::int64_t>(deadline_s * 1000))};
}

std::int64_t CommConfig::bucket_bytes(std::int64_t gradient_bytes, Communicator& communicator, bool by_nccl) const {
  if (bucket_mb != automatic) return wanted_bucket_bytes();
  if (!by_nccl && !(communicator.size() > 1 && communicator.same_bits_in_any_bucket())) return host_bucket_bytes;
  if (!by_nccl) return measured_bucket_bytes(gradient_bytes, communicator);
  const std::set<std::string> hosts(communicator.hosts().begin(), communicator.hosts().end());
  return best_bucket_bytes(gradient_bytes,
                           nccl_model(communicator.size(), static_cast<int>(hosts.size()), options().wire));
}

}  // namespace babelring
