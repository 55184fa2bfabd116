#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/body_memory.h"
#include "server/http/connections.h"
#include "server/http/dispatcher.h"
#include "server/http/limits.h"
#include "server/http/request_head.h"
#include "server/http/transport.h"

namespace babelring::http {

namespace asio = boost::asio;

inline constexpr std::int64_t max_drained_bytes = std::int64_t{4} << 20;  // of what a client sends in vain

/// One connection: reads requests, one after another, and writes their responses. Runs on the one thread of its
/// socket's context, except where a function says otherwise.
class Session : public Connection, public std::enable_shared_from_this<Session> {
 public:
  /// What all sessions of a server use; it outlives them.
  struct Shared {
    const Dispatcher& dispatcher;
    const Limits& limits;
    Connections& connections;
    const BodyMemory& bodies;
  };

  /// `tls` null: plain. `address` is the client's. A session in the reserve answers one request, and only a health
  /// check or a report (503 otherwise).
  Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address, Place place,
          const Shared& shared);
  ~Session() override;

  /// Begins to serve; the session keeps itself alive until its connection ends.
  void start();
  void finish() override;
  void abort() override;

 private:
  template <class T>
  using Awaitable = asio::awaitable<T>;

  Awaitable<void> run();
  /// Performs the TLS handshake, if there is TLS. False if the connection is over.
  Awaitable<bool> secure();
  /// Lingering close, so that the last response also reaches a client that is still sending. It takes a second at
  /// most, and reads no more than max_drained_bytes.
  Awaitable<void> linger_and_close();
  /// Serves one request. False if the connection is over or has become an event stream.
  Awaitable<bool> serve_one();
  /// Length of the head that is now in buffer_; 0 if the connection is over or the client was refused.
  Awaitable<std::size_t> read_head();
  /// The next request's head; nothing if the connection is over or the client was refused.
  Awaitable<std::optional<RequestHead>> next_head();
  /// Reads the body, of which there is one, or passes over that of a refused request. False if the connection is over.
  /// Sets `refusal` if there is no room for it.
  Awaitable<bool> take_body(Request& request, const RequestHead& head, std::optional<Response>& refusal);
  Awaitable<bool> read_body(Request& request, const RequestHead& head, std::optional<Response>& refusal);
  Awaitable<bool> discard_body(std::int64_t length);
  /// Whose share of what is limited a request takes: its token's, or its address'.
  static std::string client_of(const Request& request);
  /// Where bytes go that nobody wants; of the calling thread.
  static asio::mutable_buffer scrap();
  bool strict_transport() const { return transport_.encrypted() && limits_.strict_transport; }
  /// Sets the deadline of a body of which `have` bytes have come since `start`. False if it has passed; the client was
  /// refused then.
  Awaitable<bool> body_is_in_time(std::chrono::steady_clock::time_point start, std::size_t have);
  /// Refuses what the reserve does not serve. `share` is kept until the request has been answered.
  std::optional<Response> check_reserve(const Request& request, const Admission::Decision& admission,
                                        std::optional<Connections::ReserveShare>& share);
  /// The handler's response; nothing if the client has left meanwhile. Sets `gone` then, and when the response does
  /// not come in time. `takes_interim`: the client understands responses of class 1xx.
  Awaitable<std::optional<Response>> answer(std::shared_ptr<const Request> request, Admission::Decision admission,
                                            bool takes_interim);
  /// The events of `wanted`, and errors, that poll() reports of the socket at once.
  short events_now(short wanted);
  /// Whether the connection was reset, or closed here.
  bool hung_up();
  /// Whether the client no longer waits for an answer. `probed`: whether an interim response was sent to find out.
  Awaitable<bool> client_left(bool takes_interim, bool& probed);
  Awaitable<void> refuse(int status, std::string code, std::string detail);

  /// A response being sent.
  struct Outgoing {
    std::string head;
    std::string_view text;  // the body if it is a text; points into the response
    std::size_t sent = 0;   // bytes of head and text
    bool whole = false;     // everything was sent
    bool reusable = false;  // the connection can be used again
  };
  /// Makes the head and sends what the socket takes at once, which for most responses is everything.
  Outgoing begin_write(const Request& request, Response& response);
  /// Sends the rest. The events of a stream are left to write_events().
  Awaitable<void> write_rest(const Request& request, Response& response, const Outgoing& out);
  Awaitable<void> write_file(const FileSlice& slice);
  Awaitable<void> write_stream(const Request& request, std::shared_ptr<BodyStream> stream);
  Awaitable<void> write_events();
  Awaitable<void> write_all(std::string_view first, std::string_view second);
  Awaitable<std::string> next_chunk(const Request& request, std::shared_ptr<BodyStream> stream);

  Awaitable<void> write_encrypted(const FileSlice& slice);
  /// Sends what the socket takes of both without waiting, and returns how much; nothing over TLS. Throws system_error
  /// if the connection is broken.
  std::size_t send_now(std::string_view first, std::string_view second);

  /// Cancels what the session waits for, and sets timed_out_, unless another deadline is set before this one passes.
  /// An operation whose data keeps coming may have nothing to cancel at that moment: if no other deadline follows
  /// within a moment, the connection is closed. The timer itself is only moved if it would fire too late.
  void set_deadline(std::chrono::milliseconds limit);
  void clear_deadline();
  void on_deadline();
  /// Begins to send: the client must keep up limits.write_bytes_a_second over each limits.write_stall.
  void begin_sending();
  void note_taken(std::size_t bytes);
  void wait_until(std::chrono::steady_clock::time_point time);
  void close();

  Transport transport_;
  asio::ip::tcp::socket& socket_;  // transport_'s
  asio::steady_timer deadline_, ready_;
  std::chrono::steady_clock::time_point due_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point wakes_ = std::chrono::steady_clock::time_point::max();  // deadline_'s
  const Dispatcher& dispatcher_;
  const Limits& limits_;
  Connections& connections_;
  const BodyMemory& bodies_;
  std::string buffer_;
  std::shared_ptr<EventSource> events_;      // of an event stream
  std::shared_ptr<const Caller> listener_;   // who receives it
  std::shared_ptr<std::atomic<bool>> gone_;  // of the request that is being answered
  std::size_t served_ = 0, taken_ = 0;
  std::int64_t sent_bytes_ = 0;
  bool overdue_ = false;  // the deadline has passed, and the connection will be closed
  bool finishing_ = false, interruptible_ = false, timed_out_ = false;
  bool woken_ = false, reader_left_ = false;
};

}  // namespace babelring::http
