#include "nmt/comm/shared/host_memory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

namespace babelring {

std::shared_ptr<SharedFile> share_on_host(Communicator& communicator, std::size_t bytes, const std::string& key,
                                          const std::function<void(char*)>& prepare) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::string own = fmt::format("{} {} {}", communicator.hosts()[rank], bytes, key);
  const std::vector<std::string> requests = communicator.all_gather(own);
  const auto creator = static_cast<std::size_t>(std::find(requests.begin(), requests.end(), own) - requests.begin());
  const bool alone = std::count(requests.begin(), requests.end(), own) == 1;
  std::shared_ptr<SharedFile> file;
  if (creator == rank && !alone) file = SharedFile::create(bytes);
  if (file) prepare(file->data());
  const std::vector<std::string> invitations = communicator.all_gather(file ? file->invitation() : "");
  if (creator != rank) file = SharedFile::open(invitations[creator]);
  if (!file && communicator.local_size() > 1) {
    spdlog::warn("rank {} cannot share memory with the other ranks of {}: it takes up to {} MB of its own", rank,
                 communicator.hosts()[rank], bytes >> 20);
  }
  return file;
}

}  // namespace babelring
