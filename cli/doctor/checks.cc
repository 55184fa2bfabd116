#include "cli/doctor/checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/result.h"
#include "client/api_client.h"
#include "client/http_client.h"
#include "client/server_access.h"
#include "nmt/data/manifest.h"

namespace babelring {
namespace {

std::string_view word_for(Severity severity) {
  return severity == Severity::ok ? "ok" : severity == Severity::warn ? "warn" : "fail";
}

}  // namespace

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Severity worst_of(const Diagnoses& findings) {
  Severity worst = Severity::ok;
  for (const Diagnosis& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

std::string text_of(const Diagnoses& findings) {
  std::string text;
  for (const Diagnosis& finding : findings) {
    text += fmt::format("{:<5}{:<10}{}\n", word_for(finding.severity), finding.area, finding.text);
    if (!finding.advice.empty()) text += fmt::format("{:<15}-> {}\n", "", finding.advice);
  }
  return text;
}

json::object json_of(const Diagnoses& findings) {
  json::array list;
  for (const Diagnosis& finding : findings) {
    list.push_back(json::object{{"area", finding.area},
                                {"verdict", word_for(finding.severity)},
                                {"text", finding.text},
                                {"advice", finding.advice}});
  }
  return {{"verdict", word_for(worst_of(findings))}, {"findings", std::move(list)}};
}

namespace {

namespace fs = std::filesystem;

/// True if the folder's file system is, or may be, on the network.
bool on_network(const fs::path& folder) {
  return disk_type(folder).kind != FileSystemKind::local;
}

Diagnosis room_finding(const fs::path& folder) {
  constexpr double gb = 1e9;
  std::error_code error;
  const double available = static_cast<double>(fs::space(folder, error).available);
  Diagnosis finding{.area = "storage",
                    .text = fmt::format("{}: {:.1f} GB free{}", folder.string(), error ? 0 : available / gb,
                                        on_network(folder) ? ", on the network" : "")};
  if (error || available < 10 * gb) {
    finding.severity = error || available < gb ? Severity::fail : Severity::warn;
    finding.advice =
        "a checkpoint of transformer-base needs 0.9 GB, and several are kept: free space, or choose "
        "another folder (--run-dir)";
  }
  return finding;
}

FileDescriptor open_to_lock(const fs::path& file) {
  return FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

bool take_lock(const FileDescriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Tests that file locks work and exclude each other.
Status test_locks(const fs::path& file) {
  const FileDescriptor first = open_to_lock(file), second = open_to_lock(file);
  if (!take_lock(first)) return Error{std::strerror(errno)};
  if (take_lock(second)) return Error{"two processes can hold the same lock"};
  if (errno != EWOULDBLOCK) return Error{std::strerror(errno)};
  return {};
}

Diagnosis lock_finding(const fs::path& folder, const fs::path& file) {
  Diagnosis finding{.area = "storage", .text = fmt::format("{}: file locks work", folder.string())};
  const Status locks = test_locks(file);
  if (locks) return finding;
  finding.severity = Severity::fail;
  finding.text = fmt::format("{}: file locks do not work: {}", folder.string(), locks.error());
  finding.advice = "spools and the server's data need flock(2): use a local folder, or a mount with locks";
  return finding;
}

Diagnosis write_finding(const fs::path& folder, const fs::path& file) {
  constexpr double slow_ms = 500;
  const Stopwatch watch;
  Diagnosis finding{.area = "storage", .text = {}};
  try {
    write_file_atomically(file, "nmt doctor\n");
  } catch (const Failure& failure) {
    finding.severity = Severity::fail;
    finding.text = failure.what();
    finding.advice = "runs are written here: grant write permission, or choose another folder (--run-dir)";
    return finding;
  }
  const double ms = watch.elapsed_ms();
  finding.text = fmt::format("{}: a small fsynced write takes {:.0f} ms", folder.string(), ms);
  if (ms > slow_ms) {
    finding.severity = Severity::warn;
    finding.advice = "slow disk: checkpoints and spools wait for it";
  }
  return finding;
}

constexpr const char* copy_again = "copy the folder again from a host whose copy is good, or prepare it again";

/// The error of work on a folder of data as a finding.
template <class Work>
std::optional<Diagnosis> data_fault(const Work& work) try {
  work();
  return std::nullopt;
} catch (const Failure& failure) {
  return Diagnosis{.area = "data", .severity = Severity::fail, .text = failure.what(), .advice = copy_again};
}

}  // namespace

Diagnoses data_findings(const fs::path& folder) {
  Manifest manifest;
  if (auto fault = data_fault([&] { manifest = load_manifest(folder); })) return {*fault};
  std::vector<ManifestFile> files{manifest.vocabulary};
  for (const ManifestSet& set : manifest.sets) {
    const std::vector<ManifestFile> more = manifest.files_of(set.name);
    files.insert(files.end(), more.begin(), more.end());
  }
  Diagnoses findings;
  double bytes = 0;
  for (const ManifestFile& file : files) {
    bytes += static_cast<double>(file.bytes);
    if (auto fault = data_fault([&] { check_file(folder, file, true); })) findings.push_back(std::move(*fault));
  }
  if (!findings.empty()) return findings;
  return {{.area = "data",
           .text = fmt::format("{}: {} files, {:.1f} MB, have the digests of its manifest", folder.string(),
                               files.size(), bytes * 1e-6)}};
}

Diagnoses storage_findings(const std::filesystem::path& wanted) {
  const fs::path folder = existing_folder(wanted);
  const fs::path file = folder / fmt::format(".nmt-doctor-{}", getpid());
  Diagnoses findings{room_finding(folder), write_finding(folder, file)};
  if (findings.back().severity != Severity::fail) findings.push_back(lock_finding(folder, file));
  std::error_code ignored;
  fs::remove(file, ignored);
  return findings;
}

namespace {

/// True if the server sends a response, or at least a certificate, at this address. No token is sent.
bool talks_at(const std::string& address, const std::filesystem::path& ca_file) {
  HttpClient client(address, {.timeout = std::chrono::seconds(3), .ca_file = ca_file});
  if (client.send({.target = "/readyz"})) return true;
  return client.tls_fault() != TlsFault::none && client.tls_fault() != TlsFault::no_tls &&
         client.tls_fault() != TlsFault::other;
}

/// The address with the other scheme, if the server talks there; otherwise empty.
std::string address_with_other_scheme(const ServerAccess& access) {
  ServerAddress address = parse_server_address(access.address);
  address.encrypted = !address.encrypted;
  const std::string other = address.text();
  return talks_at(other, access.ca_file) ? other : "";
}

/// The remedy for a refused certificate; empty if the server sent none.
std::string certificate_advice(TlsFault fault, const std::string& address) {
  switch (fault) {
    case TlsFault::expired:
      return "renew the server's certificate (server --tls-cert …), or correct the clock of this machine";
    case TlsFault::not_yet_valid:
      return "correct the clock of this machine, or wait until the server's certificate is valid";
    case TlsFault::self_signed:
      return "trust it: copy the server's certificate here, and name it by --ca-file, for workers by BABELRING_CA_FILE";
    case TlsFault::unknown_issuer:
      return "trust its authority: name a PEM file of it by --ca-file, for workers by BABELRING_CA_FILE; intermediate "
             "certificates belong into the server's --tls-cert";
    case TlsFault::wrong_host:
      return fmt::format("use a name of the certificate (subjectAltName), or have one issued for {}",
                         parse_server_address(address).host);
    default:
      return "";
  }
}

Diagnosis answer_finding(const ServerAccess& access, const HttpClient& client, const Result<HttpResponse>& ready,
                         double ms) {
  Diagnosis finding{.area = "server", .text = {}};
  const bool failed = !ready || !ready->success();
  const std::string advice = certificate_advice(client.tls_fault(), access.address);
  const std::string other = failed && advice.empty() ? address_with_other_scheme(access) : "";
  if (!ready) {
    finding.severity = Severity::fail;
    finding.text = ready.error();
    finding.advice = !advice.empty()
                         ? advice
                         : "start it (server --listen …), and open its port in the firewall for every host of a run";
  } else if (!ready->success()) {
    finding.severity = Severity::fail;
    finding.text = fmt::format("{} responds, but is not ready: {}", access.address, describe(read_problem(*ready)));
    finding.advice = "GET /readyz names the cause: disk space or its database";
  } else {
    finding.text = fmt::format("{} responds in {:.0f} ms and is ready", access.address, ms);
  }
  if (!other.empty()) {
    finding.advice = fmt::format("the server speaks {} there: use {}",
                                 other.starts_with("https:") ? "TLS" : "HTTP without TLS", other);
  }
  return finding;
}

Diagnosis token_finding(const ServerAccess& access, HttpClient& client) {
  Diagnosis finding{.area = "server", .text = access.token.empty() ? "no token required" : "token accepted"};
  const Result<HttpResponse> runs = client.send({.target = "/api/v1/runs?limit=1"});
  if (runs && runs->success()) return finding;
  finding.severity = Severity::fail;
  finding.text = !runs ? runs.error() : describe(read_problem(*runs));
  if (runs && (runs->status == 401 || runs->status == 403)) {
    finding.advice = access.token.empty() ? "provide a token: --token-file FILE, or BABELRING_TOKEN"
                                          : "the token is not valid on this server: see docs/server.md";
  }
  return finding;
}

Diagnosis clock_finding(const HttpResponse& answer, std::int64_t now_ms, double round_trip_ms) {
  constexpr double tolerated_s = 5;
  Diagnosis finding{.area = "server", .text = {}};
  const Result<double> ahead = clock_ahead_s(std::string(answer.header("date")), now_ms);
  if (!ahead) {
    finding.severity = Severity::warn;
    finding.text = ahead.error();
    return finding;
  }
  const double off = std::max(0.0, std::abs(*ahead) - round_trip_ms / 1000);
  finding.text = off < 1
                     ? "its clock agrees with the local clock to the second"
                     : fmt::format("its clock is {:.0f} s {} the local clock", off, *ahead > 0 ? "ahead of" : "behind");
  if (off > tolerated_s) {
    finding.severity = Severity::warn;
    finding.advice = "times in records and logs will be inconsistent: run chrony or systemd-timesyncd on both";
  }
  return finding;
}

}  // namespace

Result<double> clock_ahead_s(const std::string& date, std::int64_t now_ms) {
  std::tm parts{};
  const char* end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return Error{fmt::format("invalid Date header of the server: \"{}\"", date)};
  const double from = static_cast<double>(::timegm(&parts)), now = static_cast<double>(now_ms) / 1000;
  return now < from ? from - now : now > from + 1 ? from + 1 - now : 0.0;
}

Diagnoses server_findings(const ServerAccess& access) {
  HttpClient client(access.address, client_options(access));
  const Stopwatch watch;
  const Result<HttpResponse> ready = client.send({.target = "/readyz"});
  const double ms = watch.elapsed_ms();
  const std::int64_t now = wall_time_ms();
  Diagnoses findings{answer_finding(access, client, ready, ms)};
  if (!ready) return findings;
  findings.push_back(token_finding(access, client));
  findings.push_back(clock_finding(*ready, now, ms));
  return findings;
}

}  // namespace babelring
