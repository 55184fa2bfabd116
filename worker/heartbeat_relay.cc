#include "worker/heartbeat_relay.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/json_get.h"

namespace babelring {
namespace {

constexpr std::size_t max_heartbeat_bytes = std::size_t{16} << 10;
/// Holds a few heartbeats, so that a rank soon notices that the receiver is stopped, and sends its own.
constexpr int send_buffer_bytes = 4096;

struct LocalAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  /// In the abstract name space of Linux: no file that could be left over.
  LocalAddress(const RankIdentity& identity, std::int64_t rank) {
    const std::string name = fmt::format("babelring heartbeat {} {} {}", identity.run, identity.attempt, rank);
    address.sun_family = AF_UNIX;
    const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), bytes);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Whether the process that sent the datagram belongs to this user. Any local process may send one.
bool from_this_user(const msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.uid == ::geteuid();
  }
  return false;
}

}  // namespace

HeartbeatRelay::HeartbeatRelay(const RankIdentity& identity, const RecordSender& sender)
    : identity_(identity), sender_(sender) {
  if (!sender.by && sender.served.empty()) return;
  FileDescriptor opened(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const LocalAddress own(identity, identity.rank);
  if (!opened || ::setsockopt(opened.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return;
  if (::setsockopt(opened.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes) != 0) return;
  if (!sender.served.empty() && ::bind(opened.get(), own.get(), own.size) != 0) return;
  socket_ = std::move(opened);
}

bool HeartbeatRelay::pass_on(const std::string& heartbeat) {
  if (!sender_.by || !socket_ || heartbeat.size() > max_heartbeat_bytes) return false;
  const LocalAddress theirs(identity_, *sender_.by);
  const ssize_t sent = ::sendto(socket_.get(), heartbeat.data(), heartbeat.size(), 0, theirs.get(), theirs.size);
  return sent >= 0;
}

void HeartbeatRelay::receive() {
  while (receives()) {
    std::string text(max_heartbeat_bytes, '\0');
    alignas(cmsghdr) char credentials[CMSG_SPACE(sizeof(ucred))];
    iovec place{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = credentials;
    message.msg_controllen = sizeof credentials;
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;
    if ((message.msg_flags & MSG_TRUNC) != 0 || !from_this_user(message)) continue;
    text.resize(static_cast<std::size_t>(bytes));
    const auto parsed = parse_json(text);
    if (!parsed.ok() || !parsed->is_object()) continue;
    const std::int64_t rank = get_integer(parsed->get_object(), "rank");
    if (std::ranges::find(sender_.served, rank) != sender_.served.end()) newest_[rank] = std::move(text);
  }
}

std::vector<std::string> HeartbeatRelay::take() {
  receive();
  std::vector<std::string> heartbeats;
  for (auto& [rank, text] : newest_) heartbeats.push_back(std::move(text));
  newest_.clear();
  return heartbeats;
}

}  // namespace babelring
