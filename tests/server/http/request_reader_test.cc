#include "server/http/request_reader.h"

#include "tests/server/http/socket_fixture.h"

namespace babelring::http {
namespace {

class RequestReaderTest : public SocketFixture {
 protected:
  /// Reads the next head, and returns its target or the code of the fault; empty: the connection has ended.
  std::string next() {
    std::string read;
    run([&]() -> ClientSocket::Awaitable<void> {
      const bool came = co_await reader_.wait_for_head();
      if (const auto head = came ? reader_.take_head() : std::nullopt) read = head->message.target;
      if (reader_.fault()) read = reader_.fault()->code();
    });
    return read;
  }

  BodyMemory bodies_{1 << 20};
  RequestReader reader_{*socket_, limits_, bodies_, false};
};

TEST_F(RequestReaderTest, ReadsRequestsThatWereSentAhead) {
  send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbodyGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  std::string body;
  std::string target;
  run([&]() -> ClientSocket::Awaitable<void> {
    co_await reader_.wait_for_head();
    auto head = reader_.take_head();
    Request request(std::move(head->message));
    const auto end = co_await reader_.read_body(request, false);
    EXPECT_EQ(end, RequestReader::Body::complete);
    body = request.body;
    EXPECT_NE(request.room, nullptr) << "the memory is held by the request";
    co_await reader_.wait_for_head();
    head = reader_.take_head();
    target = head->message.target;
  });
  EXPECT_EQ(body, "body");
  EXPECT_EQ(target, "/b");
  EXPECT_EQ(bodies_.held(), 0);
}

TEST_F(RequestReaderTest, DropsABodyThatNobodyWants) {
  send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbodyGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
  run([&]() -> ClientSocket::Awaitable<void> {
    co_await reader_.wait_for_head();
    EXPECT_TRUE(reader_.take_head());
    const bool dropped = co_await reader_.discard_body(4);
    EXPECT_TRUE(dropped);
    co_await reader_.wait_for_head();
    const auto head = reader_.take_head();
    EXPECT_EQ(head->message.target, "/b");
  });
}

TEST_F(RequestReaderTest, ABodyWithoutRoomIsNotRead) {
  send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n");
  run([&]() -> ClientSocket::Awaitable<void> {
    co_await reader_.wait_for_head();
    auto head = reader_.take_head();
    Request request(std::move(head->message));
    const auto end = co_await reader_.read_body(request, false);
    EXPECT_EQ(end, RequestReader::Body::no_room);
  });
  EXPECT_FALSE(reader_.fault());
}

TEST_F(RequestReaderTest, TheEndOfTheConnectionIsNoFault) {
  client_.shutdown(Tcp::socket::shutdown_send);
  EXPECT_EQ(next(), "");
}

TEST_F(RequestReaderTest, BytesThatAreNoRequestAreAFault) {
  send("nonsense\r\n\r\n");
  EXPECT_EQ(next(), "malformed");
}

TEST_F(RequestReaderTest, ALongRequestLineIsAFault) {
  send("GET /" + std::string(13'000, 'x'));
  EXPECT_EQ(next(), "target_too_long");
}

TEST_F(RequestReaderTest, AHeadThatDoesNotEndIsAFault) {
  limits_.header = std::chrono::milliseconds(20);
  send("GET / HTTP/1.1\r\n");
  EXPECT_EQ(next(), "head_too_slow");
}

}  // namespace
}  // namespace babelring::http
