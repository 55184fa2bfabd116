#include "worker/run_report.h"

#include <spdlog/spdlog.h>

#include <exception>

#include "base/atomic_file.h"
#include "insight/report/report.h"
#include "insight/report/spooled_history.h"

namespace babelring {

void write_run_report(const std::filesystem::path& folder) {
  try {
    const insight::Report report = insight::make_report(insight::read_spooled_history(folder));
    write_file_atomically(folder / "report.html", insight::report_html(report));
    write_file_atomically(folder / "report.json", insight::render(report, insight::ReportFormat::json));
  } catch (const std::exception& failure) {  // the training is complete without a report
    spdlog::warn("the run's report was not written: {}", failure.what());
  }
}

}  // namespace babelring
