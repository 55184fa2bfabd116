#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/client_socket.h"
#include "server/http/dispatcher.h"
#include "server/http/problem.h"

namespace babelring::http {

/// Sends responses over a connection: head, then a body of any kind but an event stream. References must outlive it.
/// Used on the socket's thread.
class ResponseWriter {
 public:
  /// `strict_transport`: tells browsers to use https only (HSTS).
  ResponseWriter(ClientSocket& client, const Dispatcher& dispatcher, std::chrono::milliseconds max_chunk_time,
                 bool strict_transport)
      : client_(client),
        dispatcher_(dispatcher),
        max_chunk_time_(max_chunk_time),
        strict_transport_(strict_transport) {}

  /// A response being sent.
  struct Outgoing {
    std::string head;
    std::string_view text;  // the body if it is a text; points into the response
    std::size_t sent = 0;   // bytes of head and text
    bool whole = false;     // everything was sent
    bool reusable = false;  // another request may follow on the connection
  };
  /// Makes the head and sends what the socket takes at once, which for most responses is everything. Adds the request's
  /// answer_headers to the response, and drops the body of a response that must have none. The response must outlive
  /// the result. Throws system_error if the connection is broken.
  Outgoing begin(const Request& request, Response& response);
  /// Sends the rest, except for the events of an event stream. Chunks of a BodyStream are made in the query lane.
  /// Throws system_error if the client is too slow or the connection is broken, and what BodyStream::next() throws.
  ClientSocket::Awaitable<void> finish(const Request& request, const Response& response, const Outgoing& out);

  /// Sends a problem in answer to bytes that are no valid request. The connection must be closed after it.
  ClientSocket::Awaitable<void> refuse(const Problem& problem);

 private:
  ClientSocket::Awaitable<void> write_stream(const Request& request, std::shared_ptr<BodyStream> stream);
  ClientSocket::Awaitable<std::string> next_chunk(const Request& request, std::shared_ptr<BodyStream> stream);

  ClientSocket& client_;
  const Dispatcher& dispatcher_;
  const std::chrono::milliseconds max_chunk_time_;
  const bool strict_transport_;
};

}  // namespace babelring::http
