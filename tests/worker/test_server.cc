#include "tests/worker/test_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "base/json.h"

namespace babelring {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

std::pair<int, std::string> Ledger::ingest(std::string_view run, std::string_view body) {
  const auto value = parse_json(body);
  if (!value.ok()) return {400, R"({"code":"bad_json"})"};
  const auto records = batch_from_json(run, *value);
  if (!records.ok()) return {422, R"({"code":"record_refused"})"};
  if (const int status = rule_ ? rule_(*records, body.size()) : 200; status != 200) {
    const char* code = status == 413 ? "too_large" : "record_refused";
    return {status, fmt::format(R"({{"title":"Unavailable","detail":"as the rule says","code":"{}"}})", code)};
  }
  const std::lock_guard lock(mutex_);
  const auto stored = sequences_.find({records->front().header.attempt, records->front().header.rank});
  const std::int64_t newest =
      stored == sequences_.end() || stored->second.empty() ? 0 : std::ranges::max(stored->second);
  if (newest < get_integer(value->as_object(), "confirmed")) {
    return {409, fmt::format(R"({{"title":"Conflict","detail":"lost","code":"records_missing","stored":{}}})", newest)};
  }
  std::int64_t accepted = 0, repeated = 0;
  for (const Record& record : *records) {
    auto& known = sequences_[{record.header.attempt, record.header.rank}];
    if (std::find(known.begin(), known.end(), record.header.sequence) == known.end()) {
      known.push_back(record.header.sequence);
      ++accepted;
    } else {
      ++repeated;
    }
  }
  duplicates_ += repeated;
  return {200, R"({"accepted":)" + std::to_string(accepted) + R"(,"duplicates":)" + std::to_string(repeated) + "}"};
}

void Ledger::lose_after(std::int64_t sequence) {
  const std::lock_guard lock(mutex_);
  for (auto& [rank, stored] : sequences_) {
    std::erase_if(stored, [&](std::int64_t each) { return each > sequence; });
  }
}

std::size_t Ledger::records() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& entry : sequences_) count += entry.second.size();
  return count;
}

std::int64_t Ledger::duplicates() const {
  const std::lock_guard lock(mutex_);
  return duplicates_;
}

std::vector<std::int64_t> Ledger::sequences(std::int64_t attempt, std::int64_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto at = sequences_.find({attempt, rank});
  return at == sequences_.end() ? std::vector<std::int64_t>{} : at->second;
}

HeldPort::HeldPort() : socket_(context_) {
  socket_.open(tcp::v4());
  socket_.set_option(asio::socket_base::reuse_address(true));
  socket_.bind(tcp::endpoint(asio::ip::address_v4::loopback(), 0));
}

TestServer::TestServer(Ledger& ledger, std::function<Behaviour(int)> behaviour, std::uint16_t port)
    : ledger_(ledger),
      behaviour_(behaviour ? std::move(behaviour) : [](int) { return Behaviour{}; }),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), port)),
      port_(acceptor_.local_endpoint().port()),
      thread_([this] { serve(); }) {}

TestServer::~TestServer() {
  ending_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (open_ != nullptr) ::shutdown(open_->native_handle(), SHUT_RDWR);
  }
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // wakes accept()
  thread_.join();
}

std::string TestServer::newest_body() const {
  const std::lock_guard lock(mutex_);
  return newest_body_;
}

void TestServer::serve() {
  while (!ending_) {
    tcp::socket socket(context_);
    boost::system::error_code code;
    acceptor_.accept(socket, code);
    if (code) continue;
    ++connections_;
    {
      const std::lock_guard lock(mutex_);
      open_ = &socket;
    }
    if (!ending_) talk(socket);
    const std::lock_guard lock(mutex_);
    open_ = nullptr;
  }
}

void TestServer::talk(tcp::socket& socket) {
  boost::beast::flat_buffer buffer;
  for (;;) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(std::size_t{4} << 20);
    boost::system::error_code code;
    http::read(socket, buffer, parser, code);
    if (code) return;
    const http::request<http::string_body> request = parser.release();
    {
      const std::lock_guard lock(mutex_);
      newest_body_ = request.body();
    }
    const Behaviour behaviour = behaviour_(requests_++);
    largest_body_ = std::max<std::size_t>(largest_body_, request.body().size());
    std::pair<int, std::string> answer{behaviour.status, "{\"detail\":\"as told\"}"};
    const std::string_view target(request.target().data(), request.target().size());
    if (!behaviour.body.empty()) answer.second = behaviour.body;
    if (behaviour.status == 200 && behaviour.body.empty())
      answer = ledger_.ingest(target.substr(13, 28), request.body());
    if (behaviour.drop_after_storing) return;
    for (auto waited = behaviour.delay; waited.count() > 0 && !ending_; waited -= std::chrono::milliseconds(10)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    http::response<http::string_body> response(static_cast<http::status>(answer.first), 11);
    if (!behaviour.retry_after.empty()) response.set(http::field::retry_after, behaviour.retry_after);
    response.body() = answer.second;
    response.prepare_payload();
    http::write(socket, response, code);
    if (code || behaviour.close_after_answer) return;
  }
}

}  // namespace babelring
