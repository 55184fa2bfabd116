#include "server/http/response_writer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "server/http/lanes.h"
#include "server/http/static_files.h"
#include "tests/server/http/socket_fixture.h"

namespace babelring::http {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Chunks of a stream. "!" is an exception.
class Chunks : public BodyStream {
 public:
  explicit Chunks(std::vector<std::string> chunks) : chunks_(std::move(chunks)) {}
  std::string next() override {
    if (at_ == chunks_.size()) return "";
    if (chunks_[at_] == "!") throw std::runtime_error("unreadable");
    return chunks_[at_++];
  }

 private:
  std::vector<std::string> chunks_;
  std::size_t at_ = 0;
};

FileSlice slice_of(const std::string& content, std::int64_t offset, std::int64_t length) {
  std::FILE* file = std::tmpfile();
  std::fwrite(content.data(), 1, content.size(), file);
  std::fflush(file);
  FileSlice slice{FileDescriptor(dup(fileno(file))), offset, length};
  std::fclose(file);
  return slice;
}

class ResponseWriterTest : public SocketFixture {
 protected:
  /// The bytes that the client receives in response to request_.
  std::string sent(Response response) {
    auto text = received();
    run([&]() -> ClientSocket::Awaitable<void> {
      const auto out = writer_.begin(request_, response);
      reusable_ = out.reusable;
      if (!out.whole) co_await writer_.finish(request_, response, out);
    });
    return text.get();
  }
  static Response with_body(decltype(Response::body) body, int status = 200) {
    Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
  }

  Dispatcher dispatcher_{Router(), StaticFiles({}, {}), {}, std::make_shared<Lanes>()};
  ResponseWriter writer_{*socket_, dispatcher_, std::chrono::minutes(1), false};
  Request request_;
  bool reusable_ = false;
};

TEST_F(ResponseWriterTest, ATextFollowsItsHead) {
  request_.method = "GET";
  request_.answer_headers = {{"RateLimit", "r=1"}};
  EXPECT_THAT(sent(with_body(std::string("hello"))),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 5\r\n"),
                    HasSubstr("RateLimit: r=1\r\n"), EndsWith("\r\n\r\nhello")));
  EXPECT_TRUE(reusable_);
}

TEST_F(ResponseWriterTest, HeadAndNotModifiedHaveNoBody) {
  request_.method = "HEAD";
  EXPECT_THAT(sent(with_body(std::string("hello"))), AllOf(HasSubstr("Content-Length: 5\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(ResponseWriterTest, NotModifiedHasNoLength) {
  EXPECT_THAT(sent(with_body(std::string("hello"), 304)),
              AllOf(Not(HasSubstr("Content-Length")), EndsWith("\r\n\r\n")));
}

TEST_F(ResponseWriterTest, APartOfAFileAndTextsKeepTheirOrder) {
  CompositeBody body;
  body.add("<");
  body.add(slice_of("0123456789", 2, 5));
  body.add(">");
  EXPECT_THAT(sent(with_body(std::move(body))), AllOf(HasSubstr("Content-Length: 7\r\n"), EndsWith("\r\n\r\n<23456>")));
}

TEST_F(ResponseWriterTest, AFileThatBecameShorterEndsTheConnectionEarly) {
  auto text = received();
  Response response = with_body(slice_of("0123", 0, 9));
  EXPECT_THROW(run([&]() -> ClientSocket::Awaitable<void> {
                 const auto out = writer_.begin(request_, response);
                 co_await writer_.finish(request_, response, out);
               }),
               boost::system::system_error);
  EXPECT_THAT(text.get(), AllOf(HasSubstr("Content-Length: 9\r\n"), EndsWith("\r\n\r\n0123")));
}

TEST_F(ResponseWriterTest, AStreamIsChunked) {
  EXPECT_THAT(
      sent(with_body(std::make_shared<Chunks>(std::vector<std::string>{"one", "two"}))),
      AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), EndsWith("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")));
  EXPECT_TRUE(reusable_);
}

TEST_F(ResponseWriterTest, AStreamEndsWithAConnectionThatIsNotKept) {
  request_.keep_alive = false;
  EXPECT_THAT(sent(with_body(std::make_shared<Chunks>(std::vector<std::string>{"one", "two"}))),
              AllOf(HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\nonetwo")));
  EXPECT_FALSE(reusable_);
}

TEST_F(ResponseWriterTest, AStreamThatFailsHasNoLastChunk) {
  auto text = received();
  Response response = with_body(std::make_shared<Chunks>(std::vector<std::string>{"one", "!"}));
  EXPECT_THROW(run([&]() -> ClientSocket::Awaitable<void> {
                 const auto out = writer_.begin(request_, response);
                 co_await writer_.finish(request_, response, out);
               }),
               std::runtime_error);
  EXPECT_THAT(text.get(), EndsWith("3\r\none\r\n"));
}

TEST_F(ResponseWriterTest, AClientThatReadsNothingIsGivenUp) {
  limits_.write_stall = std::chrono::milliseconds(20);
  const std::string large(std::size_t{32} << 20, 'x');
  EXPECT_THROW(run([&]() -> ClientSocket::Awaitable<void> { co_await socket_->write(large); }),
               boost::system::system_error);
  EXPECT_LT(socket_->sent_bytes(), std::ssize(large));
}

TEST_F(ResponseWriterTest, ARefusalClosesTheConnection) {
  auto text = received();
  run([&]() -> ClientSocket::Awaitable<void> { co_await writer_.refuse(Problem(400, "malformed", "no request")); });
  EXPECT_THAT(text.get(), AllOf(StartsWith("HTTP/1.1 400 Bad Request\r\n"), HasSubstr("Connection: close\r\n"),
                                HasSubstr("\"malformed\"")));
  EXPECT_EQ(activity_.phase(), Standing::Phase::closing);
}

}  // namespace
}  // namespace babelring::http
