#include "server/http/access_line.h"

#include <algorithm>

namespace babelring::http {

AccessLine::AccessLine(AccessLog* log, const Request& request, const Route* route, const Response& response,
                       double handled_ms, const std::int64_t& sent)
    : log_(log != nullptr && log->wants(response.status, request.caller != nullptr, handled_ms) ? log : nullptr),
      request_(request),
      route_(route),
      status_(response.status),
      work_ms_(std::min(response.work_ms, handled_ms)),
      wait_ms_(handled_ms - work_ms_),
      sent_(sent),
      sent_before_(sent) {}

AccessLine::~AccessLine() {
  if (log_ == nullptr) return;
  AccessEntry entry;
  entry.time_ms = wall_time_ms();
  entry.request = request_.id;
  entry.address = request_.address;
  if (request_.caller) {
    entry.token = request_.caller->token;
    entry.name = request_.caller->name;
  }
  entry.method = request_.method;
  if (route_ != nullptr) entry.route = route_->path;
  entry.target = request_.target;
  entry.status = status_;
  entry.bytes = sent_ - sent_before_;
  entry.wait_ms = wait_ms_;
  entry.work_ms = work_ms_;
  entry.send_ms = sending_.elapsed_ms();
  log_->write(entry);
}

void log_client_left(AccessLog* log, const Request& request, const Route* route, double handled_ms) {
  Response unheard;
  unheard.status = 499;
  constexpr std::int64_t nothing = 0;
  const AccessLine line(log, request, route, unheard, handled_ms, nothing);
}

void log_malformed(AccessLog* log, const std::string& address, int status) {
  if (log == nullptr || !log->wants(status, false, 0)) return;
  AccessEntry entry;
  entry.time_ms = wall_time_ms();
  entry.address = address;
  entry.status = status;
  log->write(entry);
}

}  // namespace babelring::http
