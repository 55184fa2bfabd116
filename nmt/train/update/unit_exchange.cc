#include "nmt/train/update/unit_exchange.h"

#include "nmt/comm/schedule/ring_order.h"

namespace babelring {

UnitExchange::UnitExchange(Backend& backend, Communicator& communicator, const ParameterStore& store)
    : backend_(backend),
      communicator_(communicator),
      store_(store),
      ranks_(ring_place(communicator.hosts(), communicator.rank()).order) {}

void UnitExchange::begin(const UpdateBatches& batches) {
  transfers_.clear();
  gives_.clear();
  receives_.clear();
  given_ = 0;
  for (const MovedUnit& moved : batches.moved) {
    Transfer transfer{.from = ranks_[static_cast<std::size_t>(moved.computed_by)],
                      .to = ranks_[static_cast<std::size_t>(moved.home)],
                      .bytes = static_cast<std::int64_t>(store_.gradients().bytes())};
    const bool gives = transfer.from == communicator_.rank();
    if (gives || transfer.to == communicator_.rank()) {
      transfer.memory = memory(gives_.size() + receives_.size());
      (gives ? gives_ : receives_)[moved.unit] = transfers_.size();
    }
    transfers_.push_back(std::move(transfer));
  }
  start_when_given();
}

void UnitExchange::give(int unit) {
  backend_.download(store_.gradients(), transfers_[gives_.at(unit)].memory->data());
  ++given_;
  start_when_given();
}

void UnitExchange::finish(const std::function<void(const float* gradients, int unit)>& add) {
  if (transfers_.empty()) return;
  communicator_.all_reduce_finish();
  for (const auto& [unit, transfer] : receives_) {
    add(static_cast<const float*>(transfers_[transfer].memory->data()), unit);
  }
}

/// Only then is the memory of all transfers ready. A rank that gives nothing can receive from the start.
void UnitExchange::start_when_given() {
  if (given_ == gives_.size() && !transfers_.empty()) communicator_.transfer_start(transfers_);
}

std::shared_ptr<Buffer> UnitExchange::memory(std::size_t index) {
  const std::size_t bytes = store_.gradients().bytes();
  if (index == memory_.size()) {
    memory_.push_back(std::make_shared<Buffer>(
        backend_.host_memory() ? backend_.allocate(bytes, MemoryPurpose::gradients) : allocate_host(bytes)));
  }
  return memory_[index];
}

}  // namespace babelring
