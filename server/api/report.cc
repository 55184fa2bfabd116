#include "insight/report/report.h"

#include "server/api/handlers.h"
#include "server/api/query.h"
#include "server/api/responses.h"
#include "server/verdict/stored_history.h"

namespace babelring::api {

http::Response show_report(Service& service, const http::Request& request) {
  const std::string word = choice_query(request, "format", {"json", "html", "md"});
  const insight::ReportFormat format = choice_of(insight::report_formats(), word);
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  const insight::Report report = insight::make_report(verdict::read_stored_history(*reader, run));
  const char* type = format == insight::ReportFormat::html       ? "text/html; charset=utf-8"
                     : format == insight::ReportFormat::markdown ? "text/markdown; charset=utf-8"
                                                                 : "application/json";
  http::Response response = http::text_response(200, type, insight::render(report, format));
  response.set("Cache-Control", "no-store");
  if (format == insight::ReportFormat::html) {
    response.set("Content-Security-Policy", insight::report_security_policy());
  }
  return response;
}

}  // namespace babelring::api
