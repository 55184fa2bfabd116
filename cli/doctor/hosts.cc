#include "cli/doctor/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string_view>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/doctor/network.h"
#include "nmt/comm/host_name.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/own_libraries.h"

namespace babelring {
namespace {

constexpr std::size_t exchanged_bytes = 64 * 1024;  // some 45 full packets of an Ethernet
constexpr std::size_t port_bytes = 8;               // the first ones: the sender's port in decimal digits, padded

using Time = SteadyClock::time_point;

/// False once `deadline` has passed.
bool wait_for(int descriptor, short events, Time deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

std::unique_ptr<addrinfo, void (*)(addrinfo*)> parse_address(const std::string& address, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &first) != 0) first = nullptr;
  return {first, ::freeaddrinfo};
}

/// The numeric address and port of this or the other end of a connection.
std::array<std::string, 2> end_of(int descriptor, int (*find)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (find(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return {host.data(), port.data()};
}

Result<FileDescriptor> connect_to(const std::string& address, const std::string& port, Time deadline) {
  const auto failed = [&](const std::string& why) {
    return Error{fmt::format("cannot connect to {} port {}: {}", address, port, why)};
  };
  const auto place = parse_address(address, port);
  if (place == nullptr) return failed("not an address");
  FileDescriptor socket(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(std::strerror(errno));
  if (::connect(socket.get(), place->ai_addr, place->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return failed(std::strerror(errno));
  }
  if (!wait_for(socket.get(), POLLOUT, deadline)) return failed("no answer within 10 s");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failed(std::strerror(error));
  return socket;
}

Result<FileDescriptor> accept_at(const FileDescriptor& listener, Time deadline) {
  if (!wait_for(listener.get(), POLLIN, deadline)) return Error{"no connection came within 10 s"};
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return Error{std::strerror(errno)};
  return socket;
}

/// Sends and receives at the same time. Returns the other end's port.
Result<std::string> exchange(const FileDescriptor& socket, const std::string& port, Time deadline) {
  std::string out(exchanged_bytes, '.'), in(exchanged_bytes, '\0');
  out.replace(0, port_bytes, fmt::format("{:<8}", port));
  std::size_t sent = 0, received = 0;
  while (sent < out.size() || received < in.size()) {
    const short events = static_cast<short>((sent < out.size() ? POLLOUT : 0) | (received < in.size() ? POLLIN : 0));
    if (!wait_for(socket.get(), events, deadline)) {
      return Error{fmt::format("connected to {}, but {} of {} KiB arrived within 10 s",
                               end_of(socket.get(), ::getpeername)[0], received / 1024, exchanged_bytes / 1024)};
    }
    const ssize_t read = ::recv(socket.get(), in.data() + received, in.size() - received, MSG_DONTWAIT);
    if (read < 0 && errno != EAGAIN) return Error{std::strerror(errno)};
    if (read == 0 && received < in.size()) return Error{"the other host closed the connection"};
    const ssize_t written = ::send(socket.get(), out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN) return Error{std::strerror(errno)};
    received += static_cast<std::size_t>(std::max<ssize_t>(0, read));
    sent += static_cast<std::size_t>(std::max<ssize_t>(0, written));
  }
  return in.substr(0, in.find(' '));
}

Time deadline_from_now() {
  return SteadyClock::now() + std::chrono::seconds(10);
}

}  // namespace

Result<Listener> listen_at(const std::string& address) {
  const auto place = parse_address(address, "0");
  if (place == nullptr) return Error{fmt::format("'{}' is no address", address)};
  FileDescriptor socket(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), place->ai_addr, place->ai_addrlen) != 0 || ::listen(socket.get(), 1) != 0) {
    return Error{fmt::format("cannot listen at {}: {}", address, std::strerror(errno))};
  }
  const std::string port = end_of(socket.get(), ::getsockname)[1];
  return Listener{.socket = std::move(socket), .address = address, .port = port};
}

Status exchange_as_listener(const Listener& listener) {
  auto incoming = accept_at(listener.socket, deadline_from_now());
  if (!incoming) return Error{fmt::format("{} port {}: {}", listener.address, listener.port, incoming.error())};
  const std::string peer = end_of(incoming->get(), ::getpeername)[0];
  const auto port = exchange(*incoming, listener.port, deadline_from_now());
  if (!port) return Error{port.error()};
  auto outgoing = connect_to(peer, *port, deadline_from_now());
  if (!outgoing) return Error{outgoing.error()};
  const auto done = exchange(*outgoing, "", deadline_from_now());
  return done ? Status() : Status(Error{done.error()});
}

Status exchange_as_caller(const std::string& address, const std::string& port) {
  auto outgoing = connect_to(address, port, deadline_from_now());
  if (!outgoing) return Error{outgoing.error()};
  const auto listener = listen_at(end_of(outgoing->get(), ::getsockname)[0]);
  if (!listener) return Error{listener.error()};
  const auto sent = exchange(*outgoing, listener->port, deadline_from_now());
  if (!sent) return Error{sent.error()};
  auto incoming = accept_at(listener->socket, deadline_from_now());
  if (!incoming) return Error{fmt::format("{} port {}: {}", listener->address, listener->port, incoming.error())};
  const auto done = exchange(*incoming, "", deadline_from_now());
  return done ? Status() : Status(Error{done.error()});
}

namespace {

namespace fs = std::filesystem;

std::string program_at(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return "";
  return fmt::format("{} build {}", version, sha256_file(file).substr(0, 12));
}

std::string processor_model(const KernelFiles& files) {
  std::ifstream stream(files.proc / "cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string member_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

/// A bridge such as docker0 has the same address on each host; Open MPI is told to leave it out.
std::vector<std::string> outward_addresses(const KernelFiles& files) {
  const std::vector<std::string> bridges = local_bridges(files.sys);
  std::vector<std::string> outward;
  for (const auto& [name, addresses] : interface_addresses()) {
    if (name == "lo" || std::ranges::find(bridges, name) != bridges.end()) continue;
    outward.insert(outward.end(), addresses.begin(), addresses.end());
  }
  return outward;
}

/// Finds the report in the output of a remote shell. The Error is the last line of the output.
Result<HostReport> report_in(const std::string& output) {
  std::istringstream lines(output);
  std::string last = "no output";
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    last = line;
    const Result<json::value> value = line[0] == '{' ? parse_json(line) : Result<json::value>(Error{"no object"});
    if (!value.ok() || !value->is_object() || !value->get_object().contains("kernels")) continue;
    const json::object& object = value->get_object();
    const json::value* libraries = object.if_contains("libraries");
    HostReport report{.nmt = member_of(object, "nmt"),
                      .worker = member_of(object, "worker"),
                      .kernels = member_of(object, "kernels"),
                      .processor = member_of(object, "processor"),
                      .identity = member_of(object, "identity"),
                      .addresses = {},
                      .libraries = libraries != nullptr ? library_versions_from_json(*libraries) : LibraryVersions(),
                      .exchange = member_of(object, "exchange")};
    std::istringstream words(member_of(object, "addresses"));
    for (std::string address; words >> address;) report.addresses.push_back(address);
    return report;
  }
  return Error{printable(last)};
}

void compare(Diagnoses& findings, const std::string& host, const char* what, const std::string& own,
             const std::string& theirs, const char* advice) {
  if (own == theirs) return;
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  findings.push_back({.area = "hosts",
                      .severity = Severity::fail,
                      .text = fmt::format("{}: {} {}, here {}", host, what, shown(theirs), shown(own)),
                      .advice = advice});
}

}  // namespace

HostReport report_host(const KernelFiles& files) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  return {.nmt = program_at(program),
          .worker = program_at(program.parent_path() / "worker"),
          .kernels = cpu_instruction_sets(),
          .processor = processor_model(files),
          .identity = host_identity(),
          .addresses = outward_addresses(files),
          .libraries = own_libraries(),
          .exchange = {}};
}

json::object json_of(const HostReport& report) {
  return {{"nmt", report.nmt},
          {"worker", report.worker},
          {"kernels", report.kernels},
          {"processor", report.processor},
          {"identity", report.identity},
          {"addresses", fmt::format("{}", fmt::join(report.addresses, " "))},
          {"libraries", to_json(report.libraries)},
          {"exchange", report.exchange}};
}

Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host, const std::string& source) {
  std::string command = "timeout 60";
  std::istringstream words(remote_shell);
  for (std::string word; words >> word;) command += " " + shell_quoted(word);
  const Result<Listener> listener = source.empty() ? Result<Listener>(Error{""}) : listen_at(source);
  const std::string exchange = listener ? fmt::format("--exchange {},{} ", source, listener->port) : "";
  command += fmt::format(" {} {} doctor --this-host {}2>&1 </dev/null", shell_quoted(host),
                         shell_quoted(fs::read_symlink("/proc/self/exe").string()), exchange);
  std::future<Status> exchanged;
  if (listener) exchanged = std::async(std::launch::async, [&] { return exchange_as_listener(*listener); });
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  if (pipe == nullptr) return Error{"cannot start a process"};
  std::string output;
  std::array<char, 4096> piece{};
  while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe.get())) {
    output.append(piece.data(), bytes);
    if (output.size() > (1 << 20)) break;
  }
  Result<HostReport> report = report_in(output);
  if (!listener) return report;
  if (!report) ::shutdown(listener->socket.get(), SHUT_RDWR);  // nobody will come
  const Status heard = exchanged.get();
  if (report && !heard && report->exchange.empty()) report->exchange = heard.error();
  return report;
}

Diagnoses host_findings(const HostReport& own, const std::vector<std::pair<std::string, Result<HostReport>>>& others) {
  Diagnoses findings;
  for (const auto& [host, theirs] : others) {
    if (!theirs.ok()) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{} could not be compared: {}", host, theirs.error()),
                          .advice =
                              "mpirun starts ranks there in the same way (Slurm does not): install the programs under "
                              "the same path on all hosts, or set another shell with --remote-shell"});
      continue;
    }
    const std::size_t before = findings.size();
    compare(findings, host, "nmt", own.nmt, theirs->nmt, "install one build on all hosts");
    compare(findings, host, "worker", own.worker, theirs->worker,
            "install one build on all hosts: ranks with different builds are refused");
    compare(
        findings, host, "kernels", own.kernels, theirs->kernels,
        "ranks with different instruction sets are refused: limit them with BABELRING_CPU_ISA and DNNL_MAX_CPU_ISA");
    compare(findings, host, "Open MPI", own.libraries.open_mpi, theirs->libraries.open_mpi,
            "install one version on all hosts: ranks with different versions are refused");
    compare(findings, host, "oneDNN", own.libraries.onednn, theirs->libraries.onednn,
            "install one version on all hosts: ranks with different versions are refused, unless "
            "communication.mixed_onednn=true allows them");
    if (own.processor != theirs->processor) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{}: processor {}, here {}", host, theirs->processor, own.processor),
                          .advice = "the slower host limits the speed of all"});
    }
    for (const std::string& address : own.addresses) {
      if (own.identity == theirs->identity) break;  // the same host by another name
      if (std::ranges::find(theirs->addresses, address) == theirs->addresses.end()) continue;
      findings.push_back({.area = "hosts",
                          .severity = Severity::warn,
                          .text = fmt::format("{}: it has the address {} too", host, address),
                          .advice =
                              "Open MPI may connect to it and wait for itself: name the network that joins the hosts, "
                              "as the advice on the interface shows"});
    }
    if (!theirs->exchange.empty()) {
      findings.push_back({.area = "hosts",
                          .severity = Severity::fail,
                          .text = fmt::format("{}: 64 KiB could not be exchanged: {}", host, theirs->exchange),
                          .advice = "let the hosts' TCP ports through in both directions (a firewall), and give all "
                                    "interfaces of the network the same MTU"});
    }
    if (findings.size() == before) {
      findings.push_back(
          {.area = "hosts", .text = fmt::format("{}: same programs, kernels and processor", host), .advice = {}});
    }
  }
  return findings;
}

}  // namespace babelring
