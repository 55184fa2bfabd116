#include "cli/doctor/server.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "base/clock.h"
#include "client/http_client.h"
#include "client/problem.h"
#include "client/server_address.h"

namespace babelring {
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
