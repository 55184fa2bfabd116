#include "tests/nmt/ops/cuda/emulation/threads.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/core/random.h"
#include "tests/nmt/ops/cuda/emulation/fiber.h"
#include "tests/nmt/ops/cuda/emulation/shared_memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace babelring::emulation {

namespace {

std::string text_of(const uint3& at) {
  return fmt::format("({}, {}, {})", at.x, at.y, at.z);
}

/// attention.cu:17
std::string text_of(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return fmt::format("{}:{}", path.substr(path.find_last_of('/') + 1), where.line());
}

bool same_line(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

struct AsyncCopy {
  void* to;
  std::vector<std::byte> bytes;
};

struct Thread {
  uint3 index{};
  unsigned number = 0;     // in its block
  Fiber* fiber = nullptr;  // from its start to its end
  const char* waits_at = nullptr;
  std::source_location where;
  bool awaited = false;                        // earlier kernels
  std::vector<std::vector<AsyncCopy>> copies;  // groups; the last one is not committed
};

struct Warp {
  unsigned mask = 0, ended = 0;
  Combine combine = nullptr;
  Meeting meeting;
  const char* what = nullptr;
  std::source_location where;
};

/// The threads of one block.
class Block {
 public:
  Block(dim3 size, bool overlaps, const std::function<void()>& body, Random& random);
  std::string run();

  void meet(std::source_location where);
  void meet_lanes(unsigned mask, const void* in, void* out, Combine combine, const char* what,
                  std::source_location where);
  [[noreturn]] void fault(std::string&& text);
  Thread& current() { return *current_; }

  /// The loop of a fiber.
  void work();

 private:
  Thread* take_ready();
  void release(const std::vector<Thread*>& threads);
  void start_in_some_order();
  void wait(const char* at, std::source_location where);
  void end(Thread& thread);
  void leave_barrier_if_all_are_there();
  void complete(Warp& warp, const Thread* without);
  Warp& warp_of(const Thread& thread) { return warps_[thread.number / warp_lanes]; }
  std::string who_waits() const;

  const bool overlaps_;
  const std::function<void()>& body_;
  Random& random_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::deque<Thread*> ready_;
  bool last_first_;  // who got ready last goes on first
  std::vector<Thread*> at_barrier_;
  std::size_t live_;
  Thread* current_ = nullptr;
  Thread* starting_ = nullptr;
  Fiber main_;
  std::string fault_;
};

Block* block = nullptr;                      // that runs
std::vector<std::unique_ptr<Fiber>> fibers;  // all there are
std::vector<Fiber*> idle;

Fiber& idle_fiber() {
  if (idle.empty()) {
    fibers.push_back(std::make_unique<Fiber>([] {
      while (true) block->work();
    }));
    return *fibers.back();
  }
  Fiber& fiber = *idle.back();
  idle.pop_back();
  return fiber;
}

template <class Element>
void shuffle(std::vector<Element>& elements, Random& random) {
  for (std::size_t left = elements.size(); left > 1; --left) {
    std::swap(elements[left - 1], elements[static_cast<std::size_t>(random.below(left))]);
  }
}

Block::Block(dim3 size, bool overlaps, const std::function<void()>& body, Random& random)
    : overlaps_(overlaps),
      body_(body),
      random_(random),
      threads_(std::size_t{size.x} * size.y * size.z),
      warps_((threads_.size() + warp_lanes - 1) / warp_lanes),
      last_first_(random.below(2) == 0),
      live_(threads_.size()) {
  for (unsigned number = 0; number < threads_.size(); ++number) {
    threads_[number].number = number;
    threads_[number].index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
  }
  const std::size_t in_last = threads_.size() % warp_lanes;
  if (in_last > 0) warps_.back().ended = ~0U << in_last;  // lanes that there are not
}

void Block::start_in_some_order() {
  std::vector<unsigned> order(warps_.size());
  for (unsigned w = 0; w < order.size(); ++w) order[w] = w;
  shuffle(order, random_);
  for (const unsigned w : order) {
    std::vector<Thread*> lanes;
    for (std::size_t t = std::size_t{w} * warp_lanes; t < threads_.size() && t < (w + 1U) * warp_lanes; ++t) {
      lanes.push_back(&threads_[t]);
    }
    release(lanes);
  }
}

std::string Block::run() {
  block = this;
  start_in_some_order();
  starting_ = take_ready();
  Fiber& first = idle_fiber();
  main_.switch_to(first);
  if (fault_.empty() && live_ > 0) fault_ = who_waits();
  for (Thread& thread : threads_) {
    if (thread.fiber == nullptr) continue;  // left in the middle, by a fault
    thread.fiber->rewind();
    idle.push_back(thread.fiber);
  }
  return fault_;
}

void Block::work() {
  Thread& thread = *starting_;
  Fiber* const thread_fiber = &Fiber::running();
  thread.fiber = thread_fiber;
  current_ = &thread;
  threadIdx = thread.index;
  body_();
  if (overlaps_ && !thread.awaited) {
    fault(fmt::format("block {}: thread {} has not waited for earlier kernels", text_of(blockIdx),
                      text_of(thread.index)));
  }
  end(thread);
  starting_ = take_ready();
  if (starting_ != nullptr && starting_->fiber == nullptr) return;  // and start it on this very stack
  idle.push_back(thread_fiber);
  // Switched to again, it may be in the service of another block: nothing of this one is touched any more.
  thread_fiber->switch_to(starting_ == nullptr ? main_ : *starting_->fiber);
}

Thread* Block::take_ready() {
  if (ready_.empty()) return nullptr;
  Thread* thread = last_first_ ? ready_.back() : ready_.front();
  last_first_ ? ready_.pop_back() : ready_.pop_front();
  return thread;
}

void Block::release(const std::vector<Thread*>& threads) {
  std::vector<Thread*> order = threads;
  shuffle(order, random_);
  ready_.insert(ready_.end(), order.begin(), order.end());
}

void Block::wait(const char* at, std::source_location where) {
  Thread& self = *current_;
  self.waits_at = at;
  self.where = where;
  Thread* next = take_ready();
  if (next == nullptr) {
    self.fiber->switch_to(main_);  // which finds that nobody can go on
  } else if (next->fiber == nullptr) {
    starting_ = next;
    self.fiber->switch_to(idle_fiber());
  } else if (next != &self) {
    self.fiber->switch_to(*next->fiber);
  }
  self.waits_at = nullptr;
  current_ = &self;
  threadIdx = self.index;
}

void Block::end(Thread& thread) {
  --live_;
  Warp& warp = warp_of(thread);
  warp.ended |= 1U << thread.number % warp_lanes;
  if (warp.meeting.present != 0 && (warp.mask & ~(warp.meeting.present | warp.ended)) == 0) complete(warp, nullptr);
  leave_barrier_if_all_are_there();
  thread.fiber = nullptr;
}

void Block::leave_barrier_if_all_are_there() {
  if (at_barrier_.empty() || at_barrier_.size() < live_) return;
  release(at_barrier_);
  at_barrier_.clear();
}

void Block::meet(std::source_location where) {
  if (!at_barrier_.empty() && !same_line(at_barrier_.front()->where, where)) {
    std::string text = fmt::format("block {}: threads wait at different barriers: thread {} at {}, thread {} at {}",
                                   text_of(blockIdx), text_of(at_barrier_.front()->index),
                                   text_of(at_barrier_.front()->where), text_of(current_->index), text_of(where));
    fault(std::move(text));
  }
  at_barrier_.push_back(current_);
  current_->where = where;
  leave_barrier_if_all_are_there();  // this one too, which may then go on at once or late
  wait("__syncthreads", where);
}

void Block::meet_lanes(unsigned mask, const void* in, void* out, Combine combine, const char* what,
                       std::source_location where) {
  const unsigned lane = current_->number % warp_lanes;
  Warp& warp = warp_of(*current_);
  if ((mask >> lane & 1) == 0) {
    std::string text = fmt::format("{}: {}: lane {} is not in its own mask {:08x}", text_of(where), what, lane, mask);
    fault(std::move(text));
  }
  if (warp.meeting.present == 0) {
    warp.mask = mask, warp.combine = combine, warp.what = what, warp.where = where;
  } else if (warp.mask != mask || warp.combine != combine || !same_line(warp.where, where)) {
    std::string text =
        fmt::format("block {}, warp {}: lanes diverge: {} at {} with mask {:08x}, lane {} in {} at {} with {:08x}",
                    text_of(blockIdx), current_->number / warp_lanes, warp.what, text_of(warp.where), warp.mask, lane,
                    what, text_of(where), mask);
    fault(std::move(text));
  }
  warp.meeting.present |= 1U << lane;
  warp.meeting.in[lane] = in, warp.meeting.out[lane] = out;
  if ((mask & ~(warp.meeting.present | warp.ended)) == 0) return complete(warp, current_);
  wait(what, where);
}

void Block::complete(Warp& warp, const Thread* without) {
  warp.combine(warp.meeting);
  std::vector<Thread*> lanes;
  const auto first = static_cast<std::size_t>(&warp - warps_.data()) * warp_lanes;
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    if ((warp.meeting.present >> lane & 1) == 0) continue;
    Thread& thread = threads_[first + lane];
    if (&thread != without) lanes.push_back(&thread);
  }
  warp.meeting.present = 0;
  release(lanes);
}

void Block::fault(std::string&& text) {
  fault_ = std::move(text);
  Fiber::running().switch_to(main_);
  std::terminate();  // nobody takes it up again
}

/// One line of who waits where, when nobody can go on.
std::string Block::who_waits() const {
  std::map<std::string, int> places;
  for (const Thread& thread : threads_) {
    if (thread.waits_at != nullptr) ++places[fmt::format("{} in {}", thread.waits_at, text_of(thread.where))];
  }
  std::string text;
  for (const auto& [place, count] : places) text += fmt::format("{}{} at {}", text.empty() ? "" : ", ", count, place);
  return fmt::format("block {}: threads wait for each other for ever: {}", text_of(blockIdx), text);
}

std::string run_block(const uint3& index, dim3 size, bool overlaps, const std::function<void()>& thread,
                      Random& random) {
  blockIdx = index;
  Block running(size, overlaps, thread, random);
  std::string text = running.run();
  block = nullptr;
  return text;
}

}  // namespace

std::string run_grid(dim3 grid, dim3 size, std::size_t shared_bytes, bool overlaps,
                     const std::function<void()>& thread) {
  static Random random(20261121);  // every grid in an order of its own, the same in every run of a program
  gridDim = grid;
  blockDim = size;
  std::vector<std::uint64_t> order(std::uint64_t{grid.x} * grid.y * grid.z);
  for (std::uint64_t b = 0; b < order.size(); ++b) order[b] = b;
  shuffle(order, random);
  SharedMemory shared(shared_bytes);
  for (const std::uint64_t b : order) {
    shared.spoil();
    const uint3 index{static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                      static_cast<unsigned>(b / grid.x / grid.y)};
    std::string text = run_block(index, size, overlaps, thread, random);
    if (!text.empty()) return text;
  }
  return "";
}

void fault(std::string&& text) {
  block->fault(std::move(text));
}

void await_earlier_kernels() {
  block->current().awaited = true;
}

void meet_block(std::source_location where) {
  block->meet(where);
}

void meet_lanes(unsigned mask, const void* in, void* out, Combine combine, const char* what,
                std::source_location where) {
  block->meet_lanes(mask, in, out, combine, what, where);
}

int own_lane() {
  return static_cast<int>(block->current().number % warp_lanes);
}

void begin_copy(void* to, const void* from, std::size_t bytes) {
  Thread& thread = block->current();
  if (thread.copies.empty()) thread.copies.emplace_back();
  AsyncCopy copy{to, std::vector<std::byte>(bytes)};
  if (from != nullptr) std::memcpy(copy.bytes.data(), from, bytes);
  std::memset(to, 0xff, bytes);
  thread.copies.back().push_back(std::move(copy));
}

void commit_copies() {
  block->current().copies.emplace_back();
}

void wait_copies(int groups_left) {
  auto& copies = block->current().copies;
  while (std::ssize(copies) > groups_left + 1) {
    for (const AsyncCopy& copy : copies.front()) std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    copies.erase(copies.begin());
  }
}

}  // namespace babelring::emulation
