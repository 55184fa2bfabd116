#include "cli/doctor/server.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "base/clock.h"
#include "client/http_client.h"
#include "client/problem.h"

namespace babelring {
namespace {

Diagnosis answer_finding(const ServerAccess& access, const Result<HttpAnswer>& ready, double ms) {
  Diagnosis finding{.area = "server", .text = {}};
  if (!ready) {
    finding.verdict = Verdict::fail;
    finding.text = fmt::format("{}: {}", access.address, ready.message());
    finding.advice = "start it (server --listen …), and let a firewall pass its port from every host of a run";
  } else if (!ready->success()) {
    finding.verdict = Verdict::fail;
    finding.text = fmt::format("{} answers, but is not well: {}", access.address, describe(read_problem(*ready)));
    finding.advice = "GET /readyz names what it lacks: room on a disk, its database";
  } else {
    finding.text = fmt::format("{} answers in {:.0f} ms and is well", access.address, ms);
  }
  return finding;
}

Diagnosis token_finding(const ServerAccess& access, HttpClient& client) {
  Diagnosis finding{.area = "server", .text = access.token.empty() ? "it asks for no token" : "it takes the token"};
  const Result<HttpAnswer> runs = client.send({.target = "/api/v1/runs?limit=1"});
  if (runs && runs->success()) return finding;
  finding.verdict = Verdict::fail;
  finding.text = !runs ? runs.message() : describe(read_problem(*runs));
  if (runs && (runs->status == 401 || runs->status == 403)) {
    finding.advice = access.token.empty() ? "give it one: --token-file FILE, or BABELRING_TOKEN"
                                          : "the token is not one of this server's: see docs/operations.md";
  }
  return finding;
}

Diagnosis clock_finding(const HttpAnswer& answer, std::int64_t now_ms, double round_trip_ms) {
  constexpr double tolerated_s = 5;
  Diagnosis finding{.area = "server", .text = {}};
  const Result<double> ahead = clock_ahead_s(std::string(answer.header("date")), now_ms);
  if (!ahead) {
    finding.verdict = Verdict::warn;
    finding.text = ahead.message();
    return finding;
  }
  const double off = std::max(0.0, std::abs(*ahead) - round_trip_ms / 1000);
  finding.text = off < 1 ? "its clock and ours agree to the second"
                         : fmt::format("its clock is {:.0f} s {} ours", off, *ahead > 0 ? "ahead of" : "behind");
  if (off > tolerated_s) {
    finding.verdict = Verdict::warn;
    finding.advice = "times in records and logs will not fit together: run chrony or systemd-timesyncd on both";
  }
  return finding;
}

}  // namespace

Result<double> clock_ahead_s(const std::string& date, std::int64_t now_ms) {
  std::tm parts{};
  const char* end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return Error{fmt::format("the server's Date is \"{}\"", date)};
  const double from = static_cast<double>(::timegm(&parts)), now = static_cast<double>(now_ms) / 1000;
  return now < from ? from - now : now > from + 1 ? from + 1 - now : 0.0;
}

Diagnoses server_findings(const ServerAccess& access) {
  HttpClient client(access.address, client_options(access));
  const Stopwatch watch;
  const Result<HttpAnswer> ready = client.send({.target = "/readyz"});
  const double ms = watch.elapsed_ms();
  const std::int64_t now = wall_time_ms();
  Diagnoses findings{answer_finding(access, ready, ms)};
  if (!ready) return findings;
  findings.push_back(token_finding(access, client));
  findings.push_back(clock_finding(*ready, now, ms));
  return findings;
}

}  // namespace babelring
