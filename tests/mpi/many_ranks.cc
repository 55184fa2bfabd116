#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "nmt/comm/mpi/session.h"
#include "nmt/comm/mpi/small_collectives.h"
#include "tests/mpi/train_small.h"

/// Trains a tiny model for 20 updates, with pauses of a rank before the first message and in an update that make all
/// others ask for signs of life, and a checkpoint that is sent to all hosts. Fails if the weights of two ranks differ
/// or if a rank has more than MAX_CONNECTIONS TCP connections to other hosts. Prints a line with the connections.
///
///   mpirun -np N many_ranks MAX_CONNECTIONS FOLDER      (replaces FOLDER)
namespace babelring {
namespace {

/// The addresses of other hosts to which this process is connected, one entry for each connection.
std::vector<std::string> connections() {
  std::set<std::string> own_sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own_sockets.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::vector<std::string> remote;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, local, peer, state, skipped, inode;
    fields >> number >> local >> peer >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> inode;
    const std::string local_address = local.substr(0, 8), address = peer.substr(0, 8);
    const bool established = state == "01", elsewhere = address != local_address && address.substr(6) != "7F";
    if (established && elsewhere && own_sockets.contains("socket:[" + inode + "]")) remote.push_back(address);
  }
  return remote;
}

/// Delays rank 0 once, for longer than the others wait before they ask for signs of life.
class Delay : public UpdateObserver {
 public:
  explicit Delay(bool delays) : delays_(delays) {}
  OpObserver* begin(const UpdateStart& start) override {
    if (delays_ && start.update == 10) std::this_thread::sleep_for(std::chrono::seconds(3));
    return nullptr;
  }
  void end(const StepRecord&) override {}

 private:
  bool delays_;
};

/// Ranks do not know their hosts yet while one of them is late.
void wait_for_a_late_first_message() {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MpiProgress progress({}, rank, ranks);
  std::thread thread([&] { progress.run(); });
  if (rank == ranks / 2) std::this_thread::sleep_for(std::chrono::seconds(3));
  SmallCollectives(progress, rank, ranks).barrier();
  if (!progress.stop()) fail("the communication thread does not end");
  thread.join();
}

std::vector<StepRecord> train(const char* updates, Communicator& communicator, TrainConfig config,
                              const std::filesystem::path& folder) {
  config.training.stop_after = updates;
  Delay delay(communicator.rank() == 0);
  return train_small(config, communicator, folder, 1, 2000, &delay);
}

void run(std::size_t max_connections, const std::filesystem::path& folder) {
  TrainConfig config = small_config();
  config.data.tokens_per_update = 2000;
  config.data.valid_set.clear();
  wait_for_a_late_first_message();
  const auto communicator = make_mpi_communicator(config.comm_options());
  if (communicator->rank() == 0) std::filesystem::remove_all(folder);
  train("15u", *communicator, config, folder);
  const std::vector<StepRecord> steps = train("20u", *communicator, config, folder);  // from the checkpoint
  if (steps.size() != 5) fail("trained {} updates after the checkpoint, expected 5", steps.size());
  communicator->barrier();
  const std::vector<std::string> found = connections();
  const std::string own = fmt::format("{} {}", found.size(), steps.back().weights_digest);
  std::size_t most = 0, all = 0;
  for (const std::string& text : communicator->all_gather(own)) {
    const std::size_t count = std::stoul(text);
    most = std::max(most, count);
    all += count;
    if (text.substr(text.find(' ')) != own.substr(own.find(' '))) fail("two ranks have different weights");
  }
  if (communicator->rank() == 0) {
    fmt::print("many_ranks: {}; at most {} connections of a rank to other hosts, {} in all\n",
               communicator->description(), most, all);
  }
  if (most > max_connections)
    fail("a rank has {} connections to other hosts, expected at most {}", most, max_connections);
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    if (argc != 3) babelring::fail("usage: many_ranks MAX_CONNECTIONS FOLDER");
    babelring::MpiSession mpi(argc, argv, std::chrono::seconds(300));
    babelring::run(std::stoul(argv[1]), argv[2]);
    mpi.finalize(std::chrono::seconds(300), 0);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "many_ranks: {}\n", failure.what());
    babelring::abort_mpi(1);
  }
}
