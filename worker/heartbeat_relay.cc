#include "worker/heartbeat_relay.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "base/json.h"

namespace babelring {
namespace {

constexpr std::size_t max_heartbeat_bytes = std::size_t{16} << 10;
/// Holds a few heartbeats, so that a rank soon notices that the receiver is stopped, and sends its own.
constexpr int send_buffer_bytes = 4096;

struct LocalAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  /// In the abstract name space of Linux: no file that could be left over.
  explicit LocalAddress(const std::string& name) {
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

std::string random_name() {
  std::random_device random;
  return fmt::format("babelring heartbeats {:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

FileDescriptor open_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Result<HeartbeatRelay> HeartbeatRelay::receiver(std::vector<std::int64_t> served) {
  HeartbeatRelay relay;
  relay.name_ = random_name();
  relay.served_ = std::move(served);
  relay.socket_ = open_socket();
  const int on = 1;
  const LocalAddress own(relay.name_);
  const int socket = relay.socket_.get();
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(socket, own.get(), own.size) != 0) {
    return Error{std::generic_category().message(errno)};
  }
  return relay;
}

HeartbeatRelay HeartbeatRelay::to(const std::string& name) {
  HeartbeatRelay relay;
  FileDescriptor opened = open_socket();
  const LocalAddress theirs(name);
  if (!opened || ::setsockopt(opened.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes) != 0) {
    return relay;
  }
  if (::connect(opened.get(), theirs.get(), theirs.size) == 0) relay.socket_ = std::move(opened);
  return relay;
}

HeartbeatRelay make_heartbeat_relay(Communicator& communicator, const RecordSender& sender) {
  HeartbeatRelay relay;
  if (!sender.served.empty()) {
    Result<HeartbeatRelay> receiver = HeartbeatRelay::receiver(sender.served);
    if (receiver) {
      relay = std::move(receiver).value();
    } else {
      spdlog::warn("heartbeats: each rank of {} sends its own, because rank {} has no local socket: {}",
                   communicator.hosts()[static_cast<std::size_t>(communicator.rank())], communicator.rank(),
                   receiver.error());
    }
  }
  const std::vector<std::string> names = communicator.all_gather(relay.name());
  const std::string name = sender.by ? names[static_cast<std::size_t>(*sender.by)] : "";
  if (!name.empty()) relay = HeartbeatRelay::to(name);
  communicator.barrier();  // until here the receivers exist, so that nobody else has taken their names
  return relay;
}

bool HeartbeatRelay::pass_on(const std::string& heartbeat) {
  if (!socket_ || !name_.empty() || heartbeat.size() > max_heartbeat_bytes) return false;
  return ::send(socket_.get(), heartbeat.data(), heartbeat.size(), MSG_NOSIGNAL) >= 0;
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
    if (std::ranges::find(served_, rank) != served_.end()) newest_[rank] = std::move(text);
  }
}

std::vector<std::string> HeartbeatRelay::take() {
  receive();
  std::vector<std::string> heartbeats;
  heartbeats.reserve(newest_.size());
  for (auto& [rank, text] : newest_) heartbeats.push_back(std::move(text));
  newest_.clear();
  return heartbeats;
}

}  // namespace babelring
