#include "server/telemetry/http_meter.h"

#include <algorithm>
#include <string_view>

#include "server/http/message.h"
#include "server/http/reply.h"
#include "server/store/writer.h"

namespace babelring::telemetry {

void HttpMeter::count(const std::string& route, const std::string& method, int status, double seconds) {
  const auto place = std::lower_bound(bounds_s.begin(), bounds_s.end(), seconds) - bounds_s.begin();
  const std::lock_guard lock(mutex_);
  auto found = cells_.find(std::tuple<std::string_view, std::string_view, int>(route, method, status));
  if (found == cells_.end()) found = cells_.emplace(Key{route, method, status}, Cell{}).first;
  Cell& cell = found->second;
  ++cell.buckets[static_cast<std::size_t>(place)];
  cell.seconds += seconds;
}

std::map<HttpMeter::Key, HttpMeter::Cell, std::less<>> HttpMeter::read() const {
  const std::lock_guard lock(mutex_);
  return cells_;
}

http::AsyncHandler metered(std::shared_ptr<HttpMeter> meter, const http::Route& route, http::AsyncHandler handler) {
  return [meter = std::move(meter), path = route.path, handler = std::move(handler)](
             const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
    const auto note = [meter, path, request](int status) {
      const double seconds = std::chrono::duration<double>(SteadyClock::now() - request->complete).count();
      meter->count(path, request->method, request->abandoned() ? http::client_left : status, seconds);
    };
    try {
      handler(request, [note, reply](http::Response response) {
        note(response.status);
        reply(std::move(response));
      });
    } catch (const http::Problem& problem) {
      note(problem.status());
      throw;
    } catch (const store::Busy& busy) {
      note(503);
      throw http::Problem(503, "busy", busy.what());
    } catch (...) {
      note(500);
      throw;
    }
  };
}

}  // namespace babelring::telemetry
