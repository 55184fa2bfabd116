#include "worker/local_peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "nmt/comm/rank_results.h"

namespace babelring {
namespace {

/// Process ids are valid only within a PID namespace. Each container has its own.
std::string pid_namespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

bool has_ended(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t name_end = text.rfind(") ");  // the process name may contain any character
  return name_end == std::string::npos || text[name_end + 2] == 'Z' || text[name_end + 2] == 'X';
}

}  // namespace

LocalPeers::LocalPeers(Communicator& communicator) {
  const std::string own_namespace = pid_namespace();
  const std::vector<std::string>& hosts = communicator.hosts();
  const std::string& own_host = hosts[static_cast<std::size_t>(communicator.rank())];
  const auto all = gather_results(communicator, json::value{{"pid", getpid()}, {"namespace", own_namespace}});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == communicator.rank() || hosts[rank] != own_host) continue;
    if (all[rank]->at("namespace").as_string() != own_namespace || own_namespace.empty()) continue;
    peers_.push_back({static_cast<int>(rank), hosts[rank], all[rank]->at("pid").as_int64()});
  }
}

std::string LocalPeers::ended() const {
  std::string names;
  for (const Peer& peer : peers_) {
    if (!has_ended(peer.pid)) continue;
    names += fmt::format("{}rank {} (host {})", names.empty() ? "" : ", ", peer.rank, peer.host);
  }
  return names;
}

}  // namespace babelring
