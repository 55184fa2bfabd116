#include "server/store/readers.h"

#include <utility>

namespace babelring::store {

Readers::Lease Readers::lease() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [&] { return !idle_.empty() || made_ < most_; });
  if (!idle_.empty()) {
    auto reader = std::move(idle_.back());
    idle_.pop_back();
    return Lease(*this, std::move(reader));
  }
  auto reader = std::make_unique<Reader>(file_);  // under the lock: happens `most_` times in all
  ++made_;
  return Lease(*this, std::move(reader));
}

void Readers::give_back(std::unique_ptr<Reader> reader) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(reader));
  }
  returned_.notify_one();
}

}  // namespace babelring::store
