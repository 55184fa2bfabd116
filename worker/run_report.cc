#include "worker/run_report.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <future>
#include <vector>

#include "base/files.h"
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

void end_together(Communicator& communicator, Reporter& reporter, const std::filesystem::path& folder) {
  constexpr std::chrono::milliseconds step{500};
  std::future<void> working = std::async(std::launch::async, [&] {
    if (communicator.rank() == 0) write_run_report(folder);
    reporter.close(std::chrono::seconds(30));
  });
  try {
    std::vector<double> busy;
    do {
      busy = {working.wait_for(step) == std::future_status::ready ? 0.0 : 1.0};
      communicator.sum(busy);
    } while (busy[0] > 0);
  } catch (const CommError& failure) {
    spdlog::warn("the run is over and saved, but the ranks cannot wait for each other's end: {}", failure.what());
  }
  working.get();
}

}  // namespace babelring
