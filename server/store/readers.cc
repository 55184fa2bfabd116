#include "server/store/readers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace babelring::store {

Readers::Lease Readers::lease(std::function<bool()> abandoned) {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_for(lock, max_wait_, [&] { return !idle_.empty() || open_ < max_open_; })) {
    throw Busy(fmt::format("all {} database readers are in use; retry the request", max_open_));
  }
  std::unique_ptr<Reader> reader;
  if (idle_.empty()) {
    reader = std::make_unique<Reader>(file_);  // under the lock, but rare
    ++open_;
  } else {
    reader = std::move(idle_.back());
    idle_.pop_back();
  }
  reader->database.interrupt_when(std::move(abandoned));
  return Lease(*this, std::move(reader));
}

void Readers::give_back(std::unique_ptr<Reader> reader) {
  reader->database.interrupt_when({});
  {
    const std::lock_guard lock(mutex_);
    reader->given_back = SteadyClock::now();
    idle_.push_back(std::move(reader));
  }
  returned_.notify_one();
}

void Readers::close_unused(std::chrono::milliseconds age) {
  std::vector<std::unique_ptr<Reader>> unused;  // closed after the lock is released
  const auto before = SteadyClock::now() - age;
  {
    const std::lock_guard lock(mutex_);
    const auto first_used =
        std::find_if(idle_.begin(), idle_.end(), [&](const auto& reader) { return reader->given_back > before; });
    std::move(idle_.begin(), first_used, std::back_inserter(unused));
    idle_.erase(idle_.begin(), first_used);
    open_ -= unused.size();
  }
}

std::size_t Readers::count() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

}  // namespace babelring::store
