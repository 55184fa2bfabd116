#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <thread>

#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/collectives.h"
#include "nmt/comm/mpi/host_exchange.h"
#include "nmt/comm/mpi/message_sums.h"
#include "nmt/comm/mpi/progress.h"
#include "nmt/comm/mpi/small_collectives.h"
#include "nmt/comm/schedule/ring.h"
#include "nmt/comm/shared/comm_memory.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {
namespace {

/// Wraps `start`, which returns an MpiCollective. `memory`, if not null, stays alive as long as the collective.
template <class Start>
MpiProgress::Make make_collective(Start start, std::shared_ptr<CommMemory> memory = nullptr) {
  return [start, memory](MpiProgress::World& world, std::int64_t) -> std::unique_ptr<Collective> {
    auto collective = std::make_unique<MpiCollective>(start(world));
    collective->keep(memory);
    return collective;
  };
}

constexpr std::int64_t part_elements = 1 << 20;

class MpiCommunicator final : public Communicator,
                              private SharedArrays,
                              private TransferChannel,
                              private CollectiveTracker,
                              private CommTracer {
 public:
  explicit MpiCommunicator(const CommOptions& options);
  ~MpiCommunicator() override { end_thread(); }

  Buffer allocate(std::size_t bytes) override;
  void all_reduce_start(Tensor tensor) override;
  void all_reduce_finish() override { progress_->wait(); }
  void forget_errors() override { memory_.forget_errors(); }
  void sum(std::vector<double>& values) override { small_->sum(values); }
  std::vector<std::string> all_gather(const std::string& text) override { return small_->all_gather(text); }
  void or_bits(std::vector<std::uint64_t>& words) override { small_->or_bits(words); }
  void broadcast(void* data, std::size_t bytes, int root) override { small_->broadcast(data, bytes, root); }
  void broadcast_to_hosts(void* data, std::size_t bytes) override { small_->broadcast_to_hosts(data, bytes); }
  void barrier() override { small_->barrier(); }
  void fail_fast(std::chrono::milliseconds silence) override { progress_->fail_fast(silence); }
  CommTotals totals() const override { return {bytes_sent_.load(), progress_->busy_ms()}; }
  std::string description() const override;

 private:
  Buffer allocate_common(std::size_t bytes) override;
  std::vector<ConstTensor> on_local_ranks(Tensor tensor) const override;
  void start(const std::vector<Transfer>& transfers) override;
  void follow(std::unique_ptr<Collective> operation) override;
  void record_spans(bool on) override { progress_->record_spans(on); }
  std::vector<CommSpan> take_spans() override { return progress_->take_spans(); }
  std::vector<RoundTrip> round_trips(int count) override { return small_->round_trips(count); }

  void check_tree() const;
  void end_thread();
  void learn_hosts();
  void choose_algorithm();
  MessageSums message_sums(AllReduceAlgorithm requested) const;
  void open_host_exchange();
  std::string share_board(AllReduceAlgorithm algorithm);
  std::shared_ptr<SharedFile> map_file(std::size_t bytes);
  void agree(std::string_view call, std::size_t bytes);
  template <class Reserve>
  std::shared_ptr<SharedMemory> share_parts(std::size_t bytes, int parts, int own, Reserve reserve);
  std::shared_ptr<CommMemory> allocate_sparse(std::size_t bytes, const std::vector<ElementRange>& reserved);
  std::int64_t bytes_to_send(std::int64_t count) const;
  float* errors_of(const std::shared_ptr<CommMemory>& memory, const float* data) const;
  void start_sum(const std::shared_ptr<CommMemory>& memory, float* data, std::int64_t count);
  void start_shared(const std::shared_ptr<SharedMemory>& memory, float* data, std::int64_t count);

  CommOptions options_;
  int rank_ = 0, size_ = 1;  // known before set_ranks()
  RingPosition ring_;
  MessageSums messages_;
  std::optional<HostPosition> host_position_;  // absent if hosts have different numbers of ranks
  std::string why_ring_;                       // why `automatic` became the ring although a host has several ranks
  MemoryRegistry memory_;
  std::shared_ptr<SharedBoard> board_;   // of this host's ranks; set if all-reduces use shared memory
  std::int64_t shared_all_reduces_ = 0;  // started so far
  std::atomic<std::int64_t> bytes_sent_{0};
  std::shared_ptr<MpiProgress> progress_;  // shared with the thread, which may have to outlive this object
  std::optional<SmallCollectives> small_;
  std::optional<MpiHostExchange> exchange_;
  std::thread thread_;
};

MpiCommunicator::MpiCommunicator(const CommOptions& options) : options_(options) {
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  if (options.segment_bytes < 4 || options.segment_bytes % 4 != 0 || options.segment_bytes > (std::int64_t{1} << 30)) {
    fail("communicator: segment_bytes is {}, expected a multiple of 4 up to 2^30", options.segment_bytes);
  }
  if (options.algorithm == AllReduceAlgorithm::mpi && options.wire != GradientWire::f32) {
    fail("communicator: the wire type is {}, all_reduce mpi supports f32 only", name_of(options.wire));
  }
  if (elements_in_message(options.wire, options.segment_bytes) == 0) {
    fail("communicator: segment_bytes is {}, too few for a block of int8", options.segment_bytes);
  }
  if (options.order == AddOrder::tree) check_tree();
  progress_ = std::make_shared<MpiProgress>(options, rank_, size_);
  small_.emplace(*progress_, rank_, size_);
  thread_ = std::thread([progress = progress_] { progress->run(); });
  try {
    learn_hosts();
    choose_algorithm();
    messages_ = message_sums(options.algorithm);
    open_host_exchange();
    set_abilities({.shared_arrays = board_ != nullptr ? this : nullptr,
                   .host_exchange = exchange_ ? &*exchange_ : nullptr,
                   .transfers = this,
                   .tracker = this,
                   .tracer = this,
                   .same_bits_in_any_bucket =
                       options_.algorithm == AllReduceAlgorithm::shared_memory ||
                       (options_.algorithm != AllReduceAlgorithm::mpi && messages_.same_bits_in_any_bucket())});
  } catch (...) {
    end_thread();
    throw;
  }
}

void MpiCommunicator::check_tree() const {
  if (!std::has_single_bit(static_cast<unsigned>(size_))) {
    fail("communicator: to add in pairs needs a power of two of ranks, there are {}", size_);
  }
  if (options_.algorithm == AllReduceAlgorithm::mpi || options_.wire != GradientWire::f32) {
    fail("communicator: neither all_reduce mpi nor a wire type but f32 can add in pairs");
  }
}

void MpiCommunicator::end_thread() {
  if (progress_->stop()) {
    thread_.join();
  } else {
    thread_.detach();  // the process is about to end; joining could wait for a lost peer
  }
}

void MpiCommunicator::learn_hosts() {
  set_ranks(rank_, small_->learn_hosts());
  ring_ = ring_position(hosts(), rank_);
  host_position_ = host_position(hosts(), rank_);
  progress_->set_hosts(hosts(), peers_to_ask(hosts(), rank_));
}

void MpiCommunicator::choose_algorithm() {
  using enum AllReduceAlgorithm;
  const AllReduceAlgorithm requested = options_.algorithm;
  if (requested == ring || requested == mpi) return;
  const bool one_host = local_size() == size_;
  options_.algorithm = ring;
  if (requested == automatic && host_position_ && local_size() == 1 && !one_host) return;  // one rank on each host
  const AllReduceAlgorithm wanted = requested != automatic ? requested : one_host ? shared_memory : two_level;
  const std::string obstacle = share_board(wanted);
  if (obstacle.empty()) {
    options_.algorithm = wanted;
  } else if (requested == automatic) {
    why_ring_ = obstacle;
  } else {
    throw UsageFailure(fmt::format("communication.all_reduce {} is impossible on {}: {}; use auto",
                                   requested == shared_memory ? "shared_memory" : "two_level",
                                   fmt::join(std::set<std::string>(hosts().begin(), hosts().end()), ", "), obstacle));
  }
}

/// By messages between all ranks, or on two levels between hosts. A tree is chosen between hosts only: the ranks of one
/// host are neighbours in a ring, but not in a tree.
MessageSums MpiCommunicator::message_sums(AllReduceAlgorithm requested) const {
  using enum AllReduceAlgorithm;
  const bool between_hosts = options_.algorithm == two_level || (host_position_ && local_size() == 1);
  return {.ring = options_.algorithm == two_level ? host_position_->between : ring_,
          .wire = options_.wire,
          .order = options_.order,
          .may_choose_tree = between_hosts && (requested == automatic || requested == two_level) &&
                             options_.wire == GradientWire::f32};
}

void MpiCommunicator::open_host_exchange() {
  const bool one_rank_each = options_.algorithm == AllReduceAlgorithm::ring && host_position_ && local_size() == 1;
  if (local_size() == size_ || (options_.algorithm != AllReduceAlgorithm::two_level && !one_rank_each)) return;
  exchange_.emplace(MpiHostExchange::Parts{
      .progress = *progress_,
      .messages = messages_,
      .board = board_,
      .local_ranks = host_position_->local_ranks,
      .segment_bytes = options_.segment_bytes,
      .summed = memory_,
      .allocate = [this](std::size_t bytes, const auto& reserved) { return allocate_sparse(bytes, reserved); },
      .shared_all_reduces = shared_all_reduces_,
      .bytes_sent = bytes_sent_});
}

/// Creates the board of this host's ranks. If `algorithm` is impossible, returns the reason and creates no board.
std::string MpiCommunicator::share_board(AllReduceAlgorithm algorithm) {
  const bool one_host = local_size() == size_;
  if (algorithm == AllReduceAlgorithm::shared_memory && !one_host) return "there are several hosts";
  if (!host_position_) return "the hosts do not have equal numbers of ranks";
  const auto file = map_file(SharedBoard::file_bytes(local_size()));
  if (file == nullptr) return "the ranks of a host cannot share memory";
  board_ = std::make_shared<SharedBoard>(file, local_rank(), local_size());
  progress_->attach({board_, &board_->own().event_count});
  return "";
}

/// The first rank of each host creates a file and all ranks of the host map it. Returns null on every rank if one rank
/// cannot map its host's file. Hosts must have equal numbers of ranks.
std::shared_ptr<SharedFile> MpiCommunicator::map_file(std::size_t bytes) {
  std::shared_ptr<SharedFile> file = local_rank() == 0 ? SharedFile::create(bytes) : nullptr;
  const std::vector<std::string> invitations = all_gather(file ? file->invitation() : "");
  const int creator = host_position_.value().local_ranks[0];
  if (local_rank() != 0) file = SharedFile::open(invitations[static_cast<std::size_t>(creator)]);
  std::vector<double> opened{file && file->bytes() == bytes ? 1.0 : 0.0};
  sum(opened);
  return static_cast<int>(opened[0]) == size_ ? file : nullptr;
}

/// Throws Failure unless all ranks request the same size.
void MpiCommunicator::agree(std::string_view call, std::size_t bytes) {
  const std::string own = fmt::format("{}", bytes);
  for (int rank = 0; const std::string& other : all_gather(own)) {
    if (other != own) fail("{}: {} bytes on rank {}, {} on rank {}", call, own, rank_, other, rank);
    ++rank;
  }
}

/// Creates a shared file of several parts and returns this rank's view of part `own`. reserve(view) must allocate the
/// memory that this rank is responsible for.
template <class Reserve>
std::shared_ptr<SharedMemory> MpiCommunicator::share_parts(std::size_t bytes, int parts, int own, Reserve reserve) {
  const auto file = map_file(SharedMemory::file_bytes(bytes, parts));
  const auto memory = file ? std::make_shared<SharedMemory>(file, bytes, own) : nullptr;
  std::vector<double> reserved{memory && reserve(*memory) ? 1.0 : 0.0};
  sum(reserved);
  if (static_cast<int>(reserved[0]) != size_) {
    fail("allocate: out of shared memory: needed {} parts of {} bytes", parts, bytes);
  }
  return memory;
}

Buffer MpiCommunicator::allocate(std::size_t bytes) {
  agree("allocate", bytes);
  if (board_ == nullptr) return memory_.add(make_private_memory(bytes));
  return memory_.add(
      share_parts(bytes, local_size(), local_rank(), [](SharedMemory& memory) { return memory.reserve(); }));
}

Buffer MpiCommunicator::allocate_common(std::size_t bytes) {
  agree("allocate_common", bytes);
  const auto memory = share_parts(
      bytes, 1, 0, [this](SharedMemory& common) { return common.reserve_share(local_rank(), local_size()); });
  return owning_buffer(memory);
}

std::shared_ptr<CommMemory> MpiCommunicator::allocate_sparse(std::size_t bytes,
                                                             const std::vector<ElementRange>& reserved) {
  agree("allocate_for_gathers", bytes);
  if (board_ == nullptr) return make_sparse_memory(bytes);
  return share_parts(bytes, 1, 0, [&](SharedMemory& common) {
    return std::all_of(reserved.begin(), reserved.end(), [&](const ElementRange& range) {
      return common.reserve_range(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end));
    });
  });
}

std::int64_t MpiCommunicator::bytes_to_send(std::int64_t count) const {
  if (options_.algorithm == AllReduceAlgorithm::shared_memory) return count * 4 * 2 * (size_ - 1) / size_;
  if (options_.algorithm != AllReduceAlgorithm::two_level) return messages_.bytes_to_send(count);
  const ElementRange shard = summed_by(local_rank(), local_size(), count);
  return messages_.bytes_to_send(shard.end - shard.begin);
}

void MpiCommunicator::all_reduce_start(Tensor tensor) {
  const auto memory = memory_.of_floats("all_reduce_start", tensor);
  const std::int64_t count = tensor.shape.elements();
  // The steps of a tree follow one another. In parts of a large sum, one uses the link while another adds.
  const std::int64_t part = messages_.in_parts() ? part_elements : std::max<std::int64_t>(1, count);
  std::int64_t begin = 0;
  do {
    start_sum(memory, tensor.as<float>() + begin, std::min(part, count - begin));
    begin += part;
  } while (begin < count);
}

/// The rounding errors of the sum at `data`; null if none are kept.
float* MpiCommunicator::errors_of(const std::shared_ptr<CommMemory>& memory, const float* data) const {
  return memory == nullptr || options_.wire != GradientWire::int8 ? nullptr : memory->error_of(data);
}

void MpiCommunicator::start_sum(const std::shared_ptr<CommMemory>& memory, float* data, std::int64_t count) {
  bytes_sent_ += bytes_to_send(count);
  if (board_ != nullptr && memory != nullptr) {
    start_shared(std::static_pointer_cast<SharedMemory>(memory), data, count);
    return;
  }
  if (options_.algorithm == AllReduceAlgorithm::mpi) {
    progress_->submit(make_collective(
        [=](MpiProgress::World& world) { return mpi_all_reduce(world.collectives.get(), data, count, world.results); },
        memory));
    return;
  }
  float* const errors = errors_of(memory, data);
  progress_->submit(
      [=, messages = messages_](MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
        auto sum = messages.all_reduce(world, sequence, data, errors, count);
        sum->keep(memory);
        return sum;
      });
}

/// Sums `data` of `memory` through the host's shared memory and, on two levels, over hosts.
void MpiCommunicator::start_shared(const std::shared_ptr<SharedMemory>& memory, float* data, std::int64_t count) {
  const std::int64_t number = shared_all_reduces_++;
  if (options_.algorithm == AllReduceAlgorithm::shared_memory) {
    progress_->submit([=, board = board_, order = options_.order](auto&, auto) -> std::unique_ptr<Collective> {
      auto shared = std::make_unique<SharedAllReduce>(board, *memory, data, count, number, order);
      shared->keep(memory);
      return shared;
    });
    return;
  }
  float* const errors = errors_of(memory, data);
  progress_->submit([=, board = board_, messages = messages_, local_ranks = host_position_->local_ranks](
                        MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
    auto over_hosts = [&world, sequence, messages, data, errors](float* shard, std::int64_t size) {
      return messages.all_reduce(world, sequence, shard, errors == nullptr ? nullptr : errors + (shard - data), size);
    };
    auto two_level = std::make_unique<TwoLevelAllReduce>(board, *memory, data, count, number, local_ranks, over_hosts,
                                                         messages.order);
    two_level->keep(memory);
    return two_level;
  });
}

void MpiCommunicator::start(const std::vector<Transfer>& transfers) {
  bytes_sent_ += bytes_sent_by(rank_, transfers);
  progress_->submit([=](MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
    return std::make_unique<MpiTransfers>(world.transfers.get(), tag_of(sequence), transfers, world.rank);
  });
}

void MpiCommunicator::follow(std::unique_ptr<Collective> operation) {
  const auto holder = std::make_shared<std::unique_ptr<Collective>>(std::move(operation));
  progress_->submit([holder](MpiProgress::World&, std::int64_t) { return std::move(*holder); });
}

std::vector<ConstTensor> MpiCommunicator::on_local_ranks(Tensor tensor) const {
  const auto memory = memory_.of_floats("on_local_ranks", tensor);
  std::vector<ConstTensor> views;
  for (int rank = 0; rank < local_size(); ++rank) {
    const float* data = static_cast<const SharedMemory&>(*memory).peer_of(tensor.as<float>(), rank);
    views.emplace_back(data, tensor.shape, tensor.dtype);
  }
  return views;
}

std::string MpiCommunicator::description() const {
  const std::set<std::string> distinct(hosts().begin(), hosts().end());
  const std::string messages =
      fmt::format("in segments of {} KiB, {} on the wire", options_.segment_bytes / 1024, name_of(options_.wire));
  const char* shape =
      messages_.by_tree(0) ? messages_.by_tree(MessageSums::largest_sum) ? "tree" : "tree or ring" : "ring";
  std::string algorithm = "MPI_Iallreduce";
  if (options_.algorithm == AllReduceAlgorithm::shared_memory) algorithm = "all-reduce in shared memory";
  if (options_.algorithm == AllReduceAlgorithm::two_level) {
    algorithm =
        fmt::format("all-reduce on two levels: shared memory within hosts, between hosts a {} {}", shape, messages);
  }
  if (options_.algorithm == AllReduceAlgorithm::ring) {
    algorithm =
        fmt::format("{} all-reduce {}{}", shape, messages, why_ring_.empty() ? "" : fmt::format(" ({})", why_ring_));
  }
  return fmt::format("MPI, {} {} on {} {}, {}, deadline {:g} s", size_, size_ == 1 ? "rank" : "ranks", distinct.size(),
                     distinct.size() == 1 ? "host" : "hosts", algorithm,
                     std::chrono::duration<double>(options_.deadline).count());
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const CommOptions& options) {
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace babelring
