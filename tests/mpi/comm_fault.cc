// One rank of a job that loses a peer. Runs all-reduces in an endless loop, like training. Handles signals like the
// worker: SIGTERM and SIGUSR1 end the job after the current update; after SIGTERM a silent peer fails the job fast.
// Driven by fault_test.py.
//   comm_fault DEADLINE_MS shared_memory|ring|exchange|nccl|nccl_exchange
//   [late|throw|error|reset|error=CALL|refused=CALL]
// exchange, nccl_exchange: sums are scattered between hosts or GPUs, and bytes gathered, as with a sharded optimizer.
// nccl, nccl_exchange: a fake NCCL between fake GPUs. With error, rank 1's transport fails during the run, or in the
// call with that number; with refused, the call itself fails; with reset, every transport fails as soon as a peer's
// process has died. Each call begins late by a random time.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/comm/nccl/communicator.h"
#include "tests/nmt/comm/fake_device_stream.h"
#include "tests/nmt/comm/fake_nccl.h"

namespace {

// A signal handler needs globals.
std::atomic<babelring::Communicator*> communicator_of_handler{nullptr};
std::atomic<bool> terminated{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  terminated = true;
  if (signal != SIGTERM) return;
  if (auto* communicator = communicator_of_handler.load()) communicator->fail_fast(std::chrono::milliseconds(100));
}

/// Registers the communicator with the signal handler for this scope.
struct HandlerReach {
  explicit HandlerReach(babelring::Communicator& communicator) { communicator_of_handler = &communicator; }
  ~HandlerReach() { communicator_of_handler = nullptr; }
};

constexpr std::int64_t count = 4 * 262'143;  // in 4 parts, each with a stripe for each of 3 ranks

void gather_weights(babelring::Communicator& communicator, const babelring::Buffer& weights) {
  babelring::HostExchange& exchange = *communicator.host_exchange();
  babelring::PartsByPosition parts;
  for (int place = 0; place < exchange.host_count(); ++place) {
    parts.push_back({{count * place / exchange.host_count(), count * (place + 1) / exchange.host_count()}});
  }
  exchange.all_gather_start(weights.view({count}, babelring::DType::f32), parts);
  communicator.all_reduce_finish();
}

/// `exchanges`: gradients are scattered and weights gathered.
void train(babelring::Communicator& communicator, bool exchanges, const std::string& mode) {
  const babelring::Buffer gradient = communicator.allocate(count * sizeof(float));
  babelring::Buffer weights;
  if (exchanges) weights = communicator.host_exchange()->allocate_for_gathers(count * sizeof(float), {});
  auto* values = static_cast<float*>(gradient.data());
  for (int update = 0;; ++update) {
    for (int bucket = 0; bucket < 4; ++bucket) {
      const babelring::Tensor part(values + bucket * (count / 4), {count / 4}, babelring::DType::f32);
      if (exchanges) {
        communicator.host_exchange()->reduce_scatter_start(part,
                                                           (count / 4 + communicator.size() - 1) / communicator.size());
      } else {
        communicator.all_reduce_start(part);
      }
    }
    if (mode == "throw" && update == 20 && communicator.rank() == 1) babelring::fail("out of memory in update 20");
    communicator.all_reduce_finish();
    if (exchanges) gather_weights(communicator, weights);
    std::fill_n(values, count, 1.0f);
    std::vector<double> stop{terminated ? 1.0 : 0.0};
    communicator.sum(stop);
    if (stop[0] > 0) return;
    if (update == 10) std::printf("ready rank %d pid %d\n", communicator.rank(), getpid()), std::fflush(stdout);
    if (mode == "late" && update == 10 && communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::minutes(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Opens a fake NCCL communicator, tracked by `control`.
std::unique_ptr<babelring::Communicator> open_fake_gpus(babelring::Communicator& control, const std::string& mode) {
  babelring::FakeNccl::Plan& plan = babelring::FakeNccl::plan();
  plan = {.rank = 1, .max_delay_us = 300};
  const std::size_t equals = mode.find('=');
  const int call = equals == std::string::npos ? 50 : std::atoi(mode.c_str() + equals + 1);
  if (mode.starts_with("error")) plan.fails_at = call;
  if (mode.starts_with("refused")) plan.refused_at = call;
  plan.notices_death = mode == "reset";
  const babelring::Buffer memory = babelring::allocate_host(4096);
  return open_nccl(babelring::FakeNccl::library(), control, std::make_unique<babelring::FakeDeviceStream>(),
                   {.trial = memory.view({1024}, babelring::DType::f32)})
      .value();
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGTERM, SIGUSR1}) std::signal(signal, on_signal);
  try {
    const babelring::MpiSession session(argc, argv);
    babelring::CommOptions options;
    options.deadline = std::chrono::milliseconds(std::atoi(argv[1]));
    const std::string kind = argv[2];
    options.algorithm = kind == "ring" || kind == "exchange" ? babelring::AllReduceAlgorithm::ring
                                                             : babelring::AllReduceAlgorithm::shared_memory;
    const auto communicator = babelring::make_mpi_communicator(options);
    const HandlerReach reach(*communicator);
    const std::string mode = argc > 3 ? argv[3] : "";
    const auto gpus = kind.starts_with("nccl") ? open_fake_gpus(*communicator, mode) : nullptr;
    babelring::Communicator& used = gpus != nullptr ? *gpus : *communicator;
    const bool exchanges = kind.ends_with("exchange");
    if (exchanges && used.host_exchange() == nullptr) babelring::fail("there are no hosts to exchange");
    train(used, exchanges, mode);
    std::printf("rank %d finished\n", communicator->rank());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    babelring::abort_mpi(3);
  }
}
