#include "nmt/comm/comm_memory.h"

namespace babelring {
namespace {

class PrivateMemory final : public CommMemory {
 public:
  explicit PrivateMemory(std::size_t bytes) : buffer_(allocate_host(bytes)) {}
  char* data() const override { return static_cast<char*>(buffer_.data()); }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  Buffer buffer_;
};

}  // namespace

Buffer owning_buffer(std::shared_ptr<CommMemory> memory) {
  char* data = memory->data();
  const std::size_t bytes = memory->bytes();
  return Buffer(data, bytes, [owner = std::move(memory)](void*) mutable { owner.reset(); });
}

Buffer MemoryRegistry::add(const std::shared_ptr<CommMemory>& memory) {
  std::erase_if(known_, [](const auto& block) { return block.expired(); });
  known_.push_back(memory);
  return owning_buffer(memory);
}

std::shared_ptr<CommMemory> MemoryRegistry::find(const Tensor& tensor) const {
  const char* begin = static_cast<const char*>(tensor.data);
  for (const auto& block : known_) {
    const auto memory = block.lock();
    if (!memory || begin < memory->data()) continue;
    if (begin + tensor.bytes() <= memory->data() + memory->bytes()) return memory;
  }
  return nullptr;
}

std::shared_ptr<CommMemory> make_private_memory(std::size_t bytes) {
  return std::make_shared<PrivateMemory>(bytes);
}

}  // namespace babelring
