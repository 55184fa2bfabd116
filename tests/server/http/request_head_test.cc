#include "server/http/request_head.h"

#include <gtest/gtest.h>

#include "server/http/fields.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

struct Probe {
  const char* name;
  std::string head;
  int status;  // 0: sound
};

std::ostream& operator<<(std::ostream& out, const Probe& probe) {
  return out << probe.name;
}

const std::string post =
    "POST /api/v1/runs/x/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const std::string get = "GET /healthz HTTP/1.1\r\n";

std::vector<Probe> probes() {
  return {
      {"sound", get + "Host: localhost\r\n\r\n", 0},
      {"te_gzip_and_length", post + "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n", 501},
      {"te_chunked_gzip", post + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501},
      {"te_xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"te_chunked", post + "Transfer-Encoding: chunked\r\n\r\n", 411},
      {"length_list", post + "Content-Length: 5, 5\r\n\r\n", 400},
      {"two_equal_lengths", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
      {"length_plus", post + "Content-Length: +5\r\n\r\n", 400},
      {"length_empty", post + "Content-Length: \r\n\r\n", 400},
      {"length_huge", post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"folded_line", get + "Host: localhost\r\nX-A: b\r\n c\r\n\r\n", 400},
      {"no_host", get + "\r\n", 400},
      {"two_hosts", get + "Host: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"old_version_chunked", "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
      {"unknown_method", "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"length_and_chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
      {"space_before_colon", get + "Host : localhost\r\n\r\n", 400},
      {"dots_in_path", "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"bare_lf", get + "Host: localhost\nX: y\r\n\r\n", 400},
      {"bare_cr", get + "Host: localhost\rX: y\r\n\r\n", 400},
      {"nul_in_value", get + std::string("Host: local\0host\r\n\r\n", 20), 400},
      {"space_in_target", "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"absolute_target", "GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"version_2", "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505},
      {"no_version", "GET /\r\nHost: localhost\r\n\r\n", 400},
      {"port", get + "Host: localhost:65535\r\n\r\n", 0},
      {"port_empty", get + "Host: [::1]:\r\n\r\n", 0},
      {"port_word", get + "Host: localhost:80evil\r\n\r\n", 400},
      {"port_negative", get + "Host: localhost:-1\r\n\r\n", 400},
      {"port_large", get + "Host: localhost:65536\r\n\r\n", 400},
      {"port_huge", get + "Host: localhost:18446744073709551617\r\n\r\n", 400},
      {"upgrade", get + "Host: localhost\r\nUpgrade: websocket\r\n\r\n", 501},
  };
}

class FramingProbe : public ::testing::TestWithParam<Probe> {};

TEST_P(FramingProbe, IsAnsweredBeforeTheConnectionCloses) {
  const Probe& probe = GetParam();
  static testing::TestServer server;
  testing::Client client(server.port());
  client.send(probe.head);
  EXPECT_EQ(client.receive().status, probe.status == 0 ? 200 : probe.status);
  if (probe.status == 0) return;
  EXPECT_TRUE(client.closed());
}

INSTANTIATE_TEST_SUITE_P(Table, FramingProbe, ::testing::ValuesIn(probes()),
                         [](const auto& probe) { return std::string(probe.param.name); });

TEST(Framing, BoundsTheNumberOfFields) {
  std::string head = get + "Host: localhost\r\n";
  for (int i = 0; i < 63; ++i) head += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_FALSE(http::check_framing(head + "\r\n"));
  EXPECT_EQ(http::check_framing(head + "X-more: y\r\n\r\n")->status, 431);
}

TEST(Range, FollowsRfc9110) {
  using Kind = http::RangeRequest::Kind;
  const auto check = [](const char* header, Kind kind, std::int64_t first, std::int64_t length) {
    const auto range = http::parse_range(header, 100);
    EXPECT_EQ(range.kind, kind) << header;
    EXPECT_EQ(range.first, first) << header;
    EXPECT_EQ(range.length, length) << header;
  };
  check("bytes=0-9", Kind::part, 0, 10);
  check("bytes=90-", Kind::part, 90, 10);
  check("bytes=90-1000", Kind::part, 90, 10);
  check("bytes=-5", Kind::part, 95, 5);
  check("bytes=-500", Kind::part, 0, 100);
  check("bytes=100-", Kind::unsatisfiable, 0, 0);
  check("bytes=-0", Kind::unsatisfiable, 0, 0);
  for (const char* whole :
       {"", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=0-1,5-6", "lines=0-1", "bytes=--5"}) {
    check(whole, Kind::whole, 0, 100);
  }
}

}  // namespace

}  // namespace babelring
