#include "server/http/limits.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::BodyMemory;
using testing::Client;

TEST(BodyMemory, EachClientMayHoldWhatIsLeft) {
  BodyMemory memory(1000);
  {
    BodyMemory::Room first(memory, "a"), second(memory, "a"), other(memory, "b"), third(memory, "c");
    EXPECT_TRUE(first.could_grow_to(500));
    EXPECT_FALSE(first.grow_to(501));
    EXPECT_EQ(memory.held(), 0);
    EXPECT_TRUE(first.grow_to(300));
    EXPECT_TRUE(first.grow_to(200)) << "never shrinks";
    EXPECT_EQ(memory.held(), 300);
    EXPECT_TRUE(second.grow_to(200));
    EXPECT_FALSE(second.grow_to(201)) << "half of all for one client";
    EXPECT_FALSE(first.could_grow_to(301));
    EXPECT_TRUE(other.grow_to(250));
    EXPECT_FALSE(other.grow_to(251));
    EXPECT_TRUE(third.grow_to(125)) << "there is always something left for another client";
    EXPECT_EQ(memory.held(), 875);
  }
  EXPECT_EQ(memory.held(), 0);
}

TEST(BodyMemory, ARequestMayOutliveTheServer) {
  auto memory = std::make_unique<BodyMemory>(1000);
  BodyMemory::Room room(*memory, "a");
  EXPECT_TRUE(room.grow_to(100));
  memory.reset();
  EXPECT_TRUE(room.grow_to(200));
}

class BodyRoomTest : public ::testing::Test {
 protected:
  static http::Limits limits() {
    http::Limits limits;
    limits.body_bytes_in_all = 400'000;
    return limits;
  }
  std::string start(const std::string& token, std::size_t bytes) {
    return "POST " + testing::records_path() + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           testing::authorization(token) + "Content-Length: " + std::to_string(bytes) +
           "\r\nExpect: 100-continue\r\n\r\n";
  }
  /// The answer to the announcement of a body that does not come.
  int announced(const std::string& token, std::size_t bytes) {
    Client client(server.port());
    client.send(start(token, bytes));
    const auto answer = client.receive();
    EXPECT_EQ(answer.status == 503, answer.headers.contains("retry-after"));
    return answer.status;
  }
  testing::TestServer server{limits()};
  const std::string one = server.token(http::Scope::ingest), other = server.token(http::Scope::ingest);
};

TEST_F(BodyRoomTest, OnlyWhatHasComeTakesRoom) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(start(one, 150'000));
    EXPECT_EQ(clients.back()->receive().status, 100) << "next to nothing has come yet";
  }
  EXPECT_EQ(announced(one, 200'001), 503) << "more than one client can ever have";
  clients.front()->send(std::string(149'000, ' '));
  EXPECT_TRUE(soon([&] { return announced(one, 150'000) == 503; }));
  EXPECT_EQ(announced(other, 60'000), 100) << "there is room for another token";
  clients.back()->send(std::string(149'000, ' '));
  const auto refused = clients.back()->receive();
  EXPECT_EQ(refused.status, 503) << "half way";
  EXPECT_TRUE(clients.back()->closed());
  clients.front()->send(std::string(1'000, ' '));
  EXPECT_EQ(clients.front()->receive().status, 400);
  EXPECT_TRUE(soon([&] { return announced(one, 150'000) == 100; })) << "the room was not given back";
}

TEST_F(BodyRoomTest, ABodyArrivesWholeHoweverItIsCut) {
  const std::string batch = testing::batch_text({testing::step_record(1, 1)});
  Client client(server.port(), one);
  const std::string padded = batch + std::string(40'000, ' ');
  const std::string head =
      "POST " + testing::records_path() + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
      testing::authorization(one) + "Content-Length: " + std::to_string(padded.size()) + "\r\n\r\n";
  const std::string all = head + padded + head + padded;
  for (std::size_t at = 0; at < all.size(); at += 7'001) client.send(std::string_view(all).substr(at, 7'001));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(client.receive().status, 200);
  client.send(head + padded);
  EXPECT_EQ(client.receive().status, 200);
}

}  // namespace

}  // namespace babelring
