#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/client_socket.h"
#include "server/http/connections.h"
#include "server/http/dispatcher.h"
#include "server/http/limits.h"
#include "server/http/request_reader.h"
#include "server/http/response_writer.h"

namespace babelring::http {

/// One connection: serves its requests one after another, then closes it. Runs on the one thread of its socket's
/// context, except where a function says otherwise.
class Session : public Connection, public std::enable_shared_from_this<Session> {
 public:
  /// Shared by all sessions of a server. References must outlive the sessions.
  struct Shared {
    const Dispatcher& dispatcher;
    const Limits& limits;
    Connections& connections;
    const BodyMemory& bodies;
  };

  /// `tls`: null for a connection without TLS. `address`: of the client. A session in the reserve serves one request,
  /// which must be a health check or a report; any other is answered with 503.
  Session(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls, std::string address, Place place,
          const Shared& shared);
  ~Session() override;

  /// Begins to serve. The session keeps itself alive until its connection ends.
  void start();
  void finish() override;
  void abort() override;

 private:
  template <class T>
  using Awaitable = ClientSocket::Awaitable<T>;

  Awaitable<void> run();
  /// Performs the TLS handshake, if there is TLS. Returns false if the connection is over.
  Awaitable<bool> secure();
  /// Lingering close, so that the last response also reaches a client that is still sending. It takes at most a second
  /// and reads at most max_drained_bytes.
  Awaitable<void> linger_and_close();
  /// Serves the request whose head has come. Returns false if the connection is over, the reader has a fault or the
  /// connection has become an event stream.
  Awaitable<bool> serve_one();
  /// Logs and sends the reader's fault, if there is one.
  Awaitable<void> refuse_fault();
  /// Reads the request's body, or drops the body of a refused request. Returns false if the connection is over. Sets
  /// `refusal` if no memory is left for it.
  Awaitable<bool> take_body(Request& request, bool expects_continue, std::optional<Response>& refusal);
  /// Refuses requests that the reserve does not serve. `reserve_place` must live until the response was sent.
  std::optional<Response> check_reserve(const Request& request, const Admission::Decision& admission,
                                        std::optional<Connections::ReservePlace>& reserve_place);
  /// The handler's response, or nothing if the client has left. Sets `gone_` then, and if the response does not come in
  /// time. `takes_interim`: the client understands responses of class 1xx.
  Awaitable<std::optional<Response>> answer(std::shared_ptr<const Request> request, Admission::Decision admission,
                                            bool takes_interim);
  /// True if the client no longer waits for a response. `probed`: an interim response was sent to find out.
  Awaitable<bool> client_left(bool takes_interim, bool& probed);
  /// Sends events until the client leaves, its token is revoked or the server stops.
  Awaitable<void> send_events();

  ClientSocket client_;
  const Dispatcher& dispatcher_;
  const Limits& limits_;
  Connections& connections_;
  RequestReader reader_;
  ResponseWriter writer_;
  std::shared_ptr<EventSource> events_;      // set by a request for an event stream, the connection's last
  std::shared_ptr<const Caller> listener_;   // receiver of events_
  std::shared_ptr<std::atomic<bool>> gone_;  // of the request that is being answered
  std::size_t served_ = 0;
  bool woken_ = false, reader_left_ = false;  // of the event stream
};

}  // namespace babelring::http
