#include "server/store/readers.h"

#include <utility>

namespace babelring::store {

Readers::Lease Readers::lease(std::function<bool()> abandoned) {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_for(lock, max_wait_, [&] { return !idle_.empty() || made_ < most_; })) {
    throw Busy(fmt::format("all {} connections for reading are in use; send it again", most_));
  }
  std::unique_ptr<Reader> reader;
  if (idle_.empty()) {
    reader = std::make_unique<Reader>(file_);  // under the lock: happens `most_` times in all
    ++made_;
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
    idle_.push_back(std::move(reader));
  }
  returned_.notify_one();
}

}  // namespace babelring::store
