#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// Ranks as threads of one process, for tests. Collectives block and sum in rank order. `shares_memory`: the
/// communicators have shared_arrays(). `hosts`: equal numbers of ranks believe to be on "here", "there-1", "there-2",
/// ….
class ThreadGroup {
 public:
  explicit ThreadGroup(int size, bool shares_memory = false, int hosts = 1)
      : size_(size),
        hosts_(hosts),
        shares_memory_(shares_memory),
        barrier_(size),
        slots_(static_cast<std::size_t>(size)) {}

  /// Creates the communicator of one rank, for one thread. The group must outlive it.
  std::unique_ptr<Communicator> rank(int rank);

  int size() const { return size_; }

 private:
  friend class ThreadCommunicator;
  int size_, hosts_;
  bool shares_memory_;
  std::barrier<> barrier_;
  std::vector<void*> slots_;  // a pointer from each rank to the others
};

class ThreadCommunicator : public Communicator,
                           private SharedArrays,
                           private HostExchange,
                           private TransferChannel,
                           private CollectiveTracker {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank, bool device_memory = false)
      : Communicator(rank, hosts_of(group)), group_(group), rank_(rank), local_size_(local_size()) {
    const bool exchanges = group.hosts_ > 1 && (group.shares_memory_ || local_size_ == 1);
    set_abilities({.shared_arrays = group.shares_memory_ ? this : nullptr,
                   .host_exchange = exchanges ? this : nullptr,
                   .transfers = this,
                   .tracker = this,
                   .device_memory = device_memory});
  }

  Buffer allocate(std::size_t bytes) override {
    Buffer memory = allocate_host(bytes);
    base_ = static_cast<char*>(memory.data());
    exchange(base_, [&] {
      bases_.clear();
      for (void* slot : group_.slots_) bases_.push_back(static_cast<char*>(slot));
    });
    return memory;
  }
  void all_reduce_start(Tensor tensor) override {
    started_.push_back([this, tensor] {
      reduce(tensor.as<float>(), static_cast<std::size_t>(tensor.shape.elements()));
      totals_.bytes_sent += static_cast<std::int64_t>(tensor.bytes());
    });
  }
  void all_reduce_finish() override {
    end_followed();
    finish(begun_ + std::ssize(started_));
  }
  void forget_errors() override {}
  void sum(std::vector<double>& values) override { reduce(values.data(), values.size()); }
  std::vector<std::string> all_gather(const std::string& text) override {
    std::string mine = text;
    std::vector<std::string> all;
    exchange(&mine, [&] {
      for (void* slot : group_.slots_) all.push_back(*static_cast<std::string*>(slot));
    });
    return all;
  }
  void or_bits(std::vector<std::uint64_t>& words) override {
    std::vector<std::uint64_t> mine = words;
    exchange(&mine, [&] {
      for (void* slot : group_.slots_) {
        const auto& theirs = *static_cast<std::vector<std::uint64_t>*>(slot);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] |= theirs[i];
      }
    });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    exchange(data, [&] {
      if (rank_ != root)
        std::copy_n(static_cast<char*>(group_.slots_[static_cast<std::size_t>(root)]), bytes, static_cast<char*>(data));
    });
  }
  void barrier() override {
    end_followed();
    group_.barrier_.arrive_and_wait();
  }
  void fail_fast(std::chrono::milliseconds) override {}
  CommTotals totals() const override { return totals_; }
  std::string description() const override { return "threads"; }

  void broadcast_to_hosts(void* data, std::size_t bytes) override {
    std::vector<char> unused(local_rank() == 0 ? 0 : bytes);
    broadcast(local_rank() == 0 ? data : unused.data(), bytes, 0);
  }

 private:
  static std::vector<std::string> hosts_of(const ThreadGroup& group) {
    std::vector<std::string> hosts;
    const int each = group.size() / group.hosts_;
    for (int rank = 0; rank < group.size(); ++rank) {
      hosts.push_back(rank < each ? "here" : "there-" + std::to_string(rank / each));
    }
    return hosts;
  }
  void start(const std::vector<Transfer>& transfers) override {
    for (const Transfer& transfer : transfers) {
      started_.push_back([this, transfer] {
        void* const data = transfer.memory == nullptr ? nullptr : transfer.memory->data();
        exchange(data, [&] {
          const void* sent = group_.slots_[static_cast<std::size_t>(transfer.from)];
          if (transfer.to == rank_) std::memcpy(data, sent, static_cast<std::size_t>(transfer.bytes));
        });
      });
    }
  }
  Buffer allocate_common(std::size_t bytes) override {
    std::shared_ptr<Buffer> memory;
    if (local_rank() == 0) memory = std::make_shared<Buffer>(allocate_host(bytes));
    std::shared_ptr<Buffer> common;
    const auto first = static_cast<std::size_t>(rank_ - local_rank());
    exchange(&memory, [&] { common = *static_cast<std::shared_ptr<Buffer>*>(group_.slots_[first]); });
    return Buffer(common->data(), bytes, [common](void*) mutable { common.reset(); });
  }
  int position() const override { return rank_ / local_size_; }
  int host_count() const override { return group_.hosts_; }
  int stripe_of(int position) const override { return local_rank() * group_.hosts_ + position; }
  void reduce_scatter_start(Tensor tensor, std::int64_t stripe) override {
    started_.push_back([this, tensor, stripe] {
      auto* values = tensor.as<float>();
      const std::int64_t count = tensor.shape.elements();
      reduce(values, static_cast<std::size_t>(count));
      const std::int64_t own = stripe_of(position());
      for (std::int64_t i = 0; i < count; ++i) {
        if (i / stripe != own && values[i] != 0) values[i] = std::numeric_limits<float>::quiet_NaN();
      }
      totals_.bytes_sent += static_cast<std::int64_t>(tensor.bytes()) / 2;
    });
  }
  Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>&) override {
    return group_.shares_memory_ ? allocate_common(bytes) : allocate_host(bytes);
  }
  std::int64_t all_gather_start(Tensor tensor, const PartsByPosition& parts) override {
    started_.push_back([this, tensor, parts] {
      const std::size_t width = size_of(tensor.dtype);
      exchange(tensor.data, [&] {
        for (int other = 0; other < group_.hosts_; ++other) {
          if (other == position()) continue;
          const char* from =
              static_cast<char*>(group_.slots_[static_cast<std::size_t>(other * local_size_ + local_rank())]);
          for (const auto& [begin, end] : parts[static_cast<std::size_t>(other)]) {
            const std::size_t first = static_cast<std::size_t>(begin) * width;
            std::copy(from + first, from + static_cast<std::size_t>(end) * width, tensor.as<char>() + first);
          }
        }
      });
    });
    totals_.bytes_sent += static_cast<std::int64_t>(tensor.bytes()) / 2;
    return begun_ + std::ssize(started_);
  }
  /// Collectives run when a rank waits for them, so a caller that forgets to wait reads old values.
  void finish(std::int64_t number) override {
    for (; begun_ < number && !started_.empty(); ++begun_) {
      const auto collective = std::move(started_.front());
      started_.pop_front();
      collective();
    }
  }
  std::vector<ConstTensor> on_local_ranks(Tensor tensor) const override {
    std::vector<ConstTensor> places;
    const int first = rank_ - local_rank();
    for (int rank = first; rank < first + local_size_; ++rank) {
      const char* base = bases_[static_cast<std::size_t>(rank)];
      places.emplace_back(base + (tensor.as<char>() - base_), tensor.shape, tensor.dtype);
    }
    return places;
  }
  void follow(std::unique_ptr<Collective> operation) override { followed_.push_back(std::move(operation)); }

  /// Publishes `mine` to all ranks and calls `read` between two barriers.
  template <class Read>
  void exchange(void* mine, Read read) {
    group_.slots_[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    read();
    barrier();
  }
  template <class T>
  void reduce(T* values, std::size_t count) {
    std::vector<T> total(count, T{});
    exchange(values, [&] {
      for (void* slot : group_.slots_) {
        for (std::size_t i = 0; i < count; ++i) total[i] += static_cast<T*>(slot)[i];
      }
    });
    std::copy(total.begin(), total.end(), values);
  }

  /// There is no peer monitor here, so an operation with an error fails immediately.
  void end_followed() {
    const auto operations = std::exchange(followed_, {});
    for (const auto& operation : operations) {
      while (operation->advance() != Collective::Progress::done) {
        if (const Status status = operation->status(); !status) {
          operation->abort();
          throw CommError(operation->name() + " failed: " + status.error());
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  ThreadGroup& group_;
  int rank_, local_size_;
  std::deque<std::function<void()>> started_;
  std::int64_t begun_ = 0;  // collectives that were started and taken from the list
  std::vector<std::unique_ptr<Collective>> followed_;
  char* base_ = nullptr;      // this rank's memory for all-reduces
  std::vector<char*> bases_;  // the memory of all ranks
  CommTotals totals_;
};

inline std::unique_ptr<Communicator> ThreadGroup::rank(int rank) {
  return std::make_unique<ThreadCommunicator>(*this, rank);
}

}  // namespace babelring
