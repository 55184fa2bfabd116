#include "nmt/core/memory_ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace babelring {
namespace {

struct PurposeText {
  std::string_view name, explanation;
};

constexpr std::array<PurposeText, memory_purposes> texts = {{
    {"weights", "weights"},
    {"gradients", "gradients"},
    {"moments", "moments"},
    {"activations", "activations, which data.micro_batch_tokens limits"},
    {"scratch", "scratch, which data.micro_batch_tokens limits"},
    {"communication", "communication"},
    {"data", "batches, of which data.prefetch updates wait"},
    {"decoding", "decoding"},
    {"tools", "tools of the lab"},
}};

const PurposeText& text_of(MemoryPurpose purpose) {
  return texts[static_cast<std::size_t>(purpose)];
}

}  // namespace

std::string_view name_of(MemoryPurpose purpose) {
  return text_of(purpose).name;
}

std::string_view explain(MemoryPurpose purpose) {
  return text_of(purpose).explanation;
}

std::int64_t MemoryUse::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

Buffer MemoryLedger::enter(std::shared_ptr<MemoryLedger> ledger, MemoryPurpose purpose, Buffer buffer,
                           std::optional<std::size_t> counted) {
  if (buffer.data() == nullptr) return buffer;
  const auto bytes = static_cast<std::int64_t>(counted.value_or(buffer.bytes()));
  void* const data = buffer.data();
  ledger->add(purpose, bytes);
  const auto held = std::make_shared<Buffer>(std::move(buffer));
  return {data, held->bytes(), [ledger = std::move(ledger), held, purpose, bytes](void*) {
            *held = Buffer();
            ledger->add(purpose, -bytes);
          }};
}

MemoryUse MemoryLedger::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

MemoryUse MemoryLedger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

MemoryUse MemoryLedger::at_peak() const {
  const std::lock_guard lock(mutex_);
  return at_peak_;
}

void MemoryLedger::add(MemoryPurpose purpose, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto place = static_cast<std::size_t>(purpose);
  live_.bytes[place] += bytes;
  peak_.bytes[place] = std::max(peak_.bytes[place], live_.bytes[place]);
  if (live_.total() > at_peak_.total()) at_peak_ = live_;
}

}  // namespace babelring
