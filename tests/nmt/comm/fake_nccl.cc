#include "tests/nmt/comm/fake_nccl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"
#include "tests/nmt/comm/fake_device_stream.h"

namespace babelring {
namespace {

constexpr std::size_t slot_bytes = 65536;  // per rank and block
constexpr int max_ranks = 16;

/// Rendezvous in memory mapped by all ranks. Counters grow by one per block; a rank that has written block n waits
/// until all ranks have.
struct Meeting {
  std::atomic<int> joined;
  std::atomic<pid_t> processes[max_ranks];
  std::atomic<std::int64_t> written[max_ranks], taken[max_ranks];
  alignas(64) char slots[max_ranks][slot_bytes];
};

struct State {
  FakeNccl::Plan plan;
  std::mutex mutex;  // guards calls
  std::vector<FakeNccl::Call> calls;
  std::atomic<int> aborted{0}, destroyed{0}, ids{0};
};

State& state() {
  static State state;
  return state;
}

bool concerns(int rank) {
  return state().plan.rank < 0 || state().plan.rank == rank;
}

}  // namespace

struct NcclCommObject {
  Meeting* meeting = nullptr;
  std::string name;  // of the shared memory, until all ranks have mapped it
  int rank = 0, ranks = 1;
  std::chrono::steady_clock::time_point joined_at = std::chrono::steady_clock::now();
  std::atomic<int> result{0};
  std::atomic<bool> stopped{false};
  std::atomic<int> running{0};  // collectives queued on streams
  std::atomic<int> polls{0};    // remaining "in progress" results
  std::int64_t queued = 0;      // used by the queuing thread
  std::int64_t blocks = 0;      // used by the stream's thread
  bool first = true;

  ~NcclCommObject() {
    if (meeting != nullptr) ::munmap(meeting, sizeof *meeting);
    ::shm_unlink(name.c_str());  // already unlinked, unless a rank is missing
  }
};

namespace {

std::size_t width_of(int type) {
  return type == nccl_float32 ? 4 : type == nccl_bfloat16 ? 2 : 1;
}

float read_element(const void* data, std::size_t i, int type) {
  return type == nccl_float32 ? static_cast<const float*>(data)[i]
                              : static_cast<float>(static_cast<const BFloat16*>(data)[i]);
}

void write_element(void* data, std::size_t i, int type, float value) {
  if (type == nccl_float32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<BFloat16*>(data)[i] = BFloat16(value);
  }
}

/// Waits until all `counts` reach `target`. Returns false if the communicator was aborted.
bool until_all(NcclCommObject& comm, const std::atomic<std::int64_t>* counts, std::int64_t target) {
  const auto all_reached = [&] {
    return std::all_of(counts, counts + comm.ranks, [&](const auto& count) { return count.load() >= target; });
  };
  const auto gone = [](const std::atomic<pid_t>& process) { return ::kill(process, 0) != 0; };
  const Meeting& meeting = *comm.meeting;
  while (!all_reached()) {
    if (comm.stopped) return false;
    if (state().plan.notices_death && std::any_of(meeting.processes, meeting.processes + comm.ranks, gone)) {
      comm.result = nccl_remote_error;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

/// Shows each rank the `bytes` bytes of all others while `read` runs.
template <class Read>
void meet(NcclCommObject& comm, const void* own, std::size_t bytes, Read read) {
  Meeting& meeting = *comm.meeting;
  const std::int64_t block = ++comm.blocks;
  if (own != nullptr) std::memcpy(meeting.slots[comm.rank], own, bytes);
  meeting.written[comm.rank] = block;
  if (!until_all(comm, meeting.written, block)) return;
  read(meeting.slots);
  meeting.taken[comm.rank] = block;
  until_all(comm, meeting.taken, block);
}

/// Calls work(first byte, bytes) for each block of `bytes` bytes.
template <class Work>
void in_blocks(const NcclCommObject& comm, std::size_t bytes, Work work) {
  for (std::size_t begin = 0; begin < bytes && !comm.stopped; begin += slot_bytes) {
    work(begin, std::min(slot_bytes, bytes - begin));
  }
}

/// Writes bytes [first, last) of the sum into `data`. Other elements become NaN, so that a test notices who reads them,
/// unless the sum is 0: gradients that nobody writes must stay 0.
void sum(NcclCommObject& comm, void* data, std::size_t bytes, int type, std::size_t first, std::size_t last) {
  const std::size_t width = width_of(type);
  in_blocks(comm, bytes, [&](std::size_t begin, std::size_t size) {
    char* const block = static_cast<char*>(data) + begin;
    meet(comm, block, size, [&](const auto& slots) {
      for (std::size_t i = 0; i < size / width; ++i) {
        float total = state().plan.wrong_sums ? 1.0f : 0.0f;
        for (int rank = 0; rank < comm.ranks; ++rank) {
          total += read_element(slots[rank], i, type);
          if (type == nccl_bfloat16) total = static_cast<float>(BFloat16(total));
        }
        const bool own = begin + i * width >= first && begin + i * width < last;
        write_element(block, i, type, own || total == 0 ? total : std::numeric_limits<float>::quiet_NaN());
      }
    });
  });
}

/// Copies the rank's `bytes` bytes to `to` on all ranks. `data` is null on the others.
void copy_from(NcclCommObject& comm, int root, const char* data, char* to, std::size_t bytes) {
  in_blocks(comm, bytes, [&](std::size_t begin, std::size_t size) {
    meet(comm, data == nullptr ? nullptr : data + begin, size,
         [&](const auto& slots) { std::memcpy(to + begin, slots[root], size); });
  });
}

void wait_for_abort(const NcclCommObject& comm) {
  while (!comm.stopped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Queues `work`, of the host's address of `memory`, on the stream as the collective that `function` names.
int queue(const char* function, void* memory, std::size_t count, int type, NcclComm comm, void* handle,
          const std::function<void(char*)>& work) {
  if (comm->polls > 0) return 4;
  if (concerns(comm->rank) && state().plan.refused_at == comm->queued) return 1;
  if (comm->first) comm->polls = state().plan.connect_polls;
  comm->first = false;
  {
    const std::lock_guard lock(state().mutex);
    state().calls.push_back({function, comm->rank, count, type});
  }
  ++comm->running;
  FakeDeviceStream& stream = FakeDeviceStream::from_handle(handle);
  stream.add([comm, work, data = static_cast<char*>(stream.reach(memory)), number = comm->queued++] {
    const FakeNccl::Plan& plan = state().plan;
    if (plan.max_delay_us > 0) {
      Random random(derive_seed(11, static_cast<std::uint64_t>(comm->rank), static_cast<std::uint64_t>(number)));
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(random.uniform() * plan.max_delay_us)));
    }
    const bool fails = concerns(comm->rank) && plan.fails_at == number;
    if (fails) comm->result = nccl_remote_error;
    if (fails || (concerns(comm->rank) && plan.hangs_at == number)) {
      wait_for_abort(*comm);
    } else {
      work(data);
    }
    --comm->running;
  });
  return comm->polls > 0 ? nccl_in_progress : nccl_success;
}

int fake_unique_id(NcclUniqueId* id) {
  const std::string name = fmt::format("/babelring-fake-nccl-{}-{}", getpid(), ++state().ids);
  ::shm_unlink(name.c_str());  // left by a killed process with the same id
  const int file = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Meeting)) != 0) return 2;
  ::close(file);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->bytes, name.data(), name.size());
  return nccl_success;
}

int fake_join(NcclComm* comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return 4;
  const FakeNccl::Plan& plan = state().plan;
  if (concerns(rank) && plan.join_result != 0) return plan.join_result;
  const int file = ::shm_open(id.bytes, O_RDWR, 0600);
  if (file < 0 || ranks > max_ranks) return 2;
  auto made = std::make_unique<NcclCommObject>();
  void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return 2;
  made->meeting = static_cast<Meeting*>(memory);
  made->name = id.bytes;
  made->rank = rank;
  made->ranks = ranks;
  made->meeting->processes[rank] = getpid();
  if (++made->meeting->joined == ranks) ::shm_unlink(id.bytes);
  *comm = made.release();
  return nccl_in_progress;
}

int fake_async_error(NcclComm comm, int* result) {
  const FakeNccl::Plan& plan = state().plan;
  const bool late = std::chrono::steady_clock::now() - comm->joined_at > std::chrono::milliseconds(5);
  *result = comm->result;
  if (concerns(comm->rank) && plan.join_error != 0) {
    *result = late ? plan.join_error : nccl_in_progress;
  } else if (comm->meeting->joined < comm->ranks || (concerns(comm->rank) && plan.never_joins)) {
    *result = nccl_in_progress;
  } else if (comm->polls > 0) {
    --comm->polls;
    *result = nccl_in_progress;
  }
  return nccl_success;
}

int fake_all_reduce(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm, void* handle) {
  if (from != to || op != nccl_sum) return 4;
  const std::size_t bytes = count * width_of(type);
  return queue("all-reduce", to, count, type, comm, handle,
               [=](char* data) { sum(*comm, data, bytes, type, 0, bytes); });
}

int fake_reduce_scatter(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm, void* handle) {
  const std::size_t bytes = count * width_of(type), own = static_cast<std::size_t>(comm->rank) * bytes;
  if (static_cast<const char*>(from) + own != to || op != nccl_sum) return 4;
  return queue("reduce-scatter", to, count, type, comm, handle, [=](char* data) {
    sum(*comm, data - own, bytes * static_cast<std::size_t>(comm->ranks), type, own, own + bytes);
  });
}

int fake_all_gather(const void* from, void* to, std::size_t count, int type, NcclComm comm, void* handle) {
  const std::size_t bytes = count * width_of(type);
  if (static_cast<char*>(to) + static_cast<std::size_t>(comm->rank) * bytes != from) return 4;
  return queue("all-gather", to, count, type, comm, handle, [=](char* all) {
    for (int rank = 0; rank < comm->ranks; ++rank) {
      char* const of_rank = all + static_cast<std::size_t>(rank) * bytes;
      copy_from(*comm, rank, rank == comm->rank ? of_rank : nullptr, of_rank, bytes);
    }
  });
}

int fake_broadcast(const void* from, void* to, std::size_t count, int type, int root, NcclComm comm, void* handle) {
  if (from != to) return 4;
  return queue("broadcast", to, count, type, comm, handle, [=](char* data) {
    copy_from(*comm, root, root == comm->rank ? data : nullptr, data, count * width_of(type));
  });
}

void leave(NcclComm comm) {
  comm->stopped = true;
  while (comm->running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  delete comm;
}

int fake_abort(NcclComm comm) {
  ++state().aborted;
  leave(comm);
  return nccl_success;
}

int fake_destroy(NcclComm comm) {
  ++state().destroyed;
  leave(comm);
  return nccl_success;
}

const char* fake_error_string(int result) {
  return result == 1                   ? "unhandled cuda error"
         : result == nccl_remote_error ? "remote process exited or there was a network error"
                                       : "unhandled system error";
}

}  // namespace

FakeNccl::Plan& FakeNccl::plan() {
  return state().plan;
}

std::vector<FakeNccl::Call> FakeNccl::calls(int rank) {
  const std::lock_guard lock(state().mutex);
  std::vector<Call> calls;
  std::copy_if(state().calls.begin(), state().calls.end(), std::back_inserter(calls),
               [rank](const Call& call) { return call.rank == rank; });
  return calls;
}

std::atomic<int>& FakeNccl::aborted() {
  return state().aborted;
}

std::atomic<int>& FakeNccl::destroyed() {
  return state().destroyed;
}

void FakeNccl::reset() {
  state().plan = {};
  state().calls.clear();
  state().aborted = state().destroyed = 0;
}

NcclLibrary FakeNccl::library(int version) {
  NcclLibrary library;
  library.version = version;
  library.functions = {.get_version =
                           [](int* found) {
                             *found = 22809;
                             return 0;
                           },
                       .get_unique_id = fake_unique_id,
                       .init_rank = fake_join,
                       .async_error = fake_async_error,
                       .all_reduce = fake_all_reduce,
                       .reduce_scatter = fake_reduce_scatter,
                       .all_gather = fake_all_gather,
                       .broadcast = fake_broadcast,
                       .group_start = [] { return 0; },
                       .group_end = [] { return 0; },
                       .finalize = [](NcclComm) { return 0; },
                       .destroy = fake_destroy,
                       .abort = fake_abort,
                       .error_string = fake_error_string,
                       .last_error = [](NcclComm) { return ""; }};
  return library;
}

}  // namespace babelring
