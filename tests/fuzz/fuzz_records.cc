// The body of the ingest route, as JSON and as records. What is accepted survives being written and read again.

#include <string_view>

#include "base/json.h"
#include "base/records/records.h"
#include "tests/fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace babelring;
  const std::string run = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E";
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) {
    expect(!body.error().empty(), "a refusal has a reason");
    return 0;
  }
  const std::string once = to_text(*body);
  const auto again = parse_json(once);
  expect(again.ok(), "JSON that was written can be read");
  expect(to_text(*again) == once, "JSON reads back to the same");

  UnknownMembers unknown;
  const auto records = batch_from_json(run, *body, &unknown);
  if (!records || records->empty()) return 0;
  const RecordHeader& header = records->front().header;
  const std::string text = to_text(batch_to_json(header.attempt, header.rank, header.host, *records));
  const auto parsed = parse_json(text);
  expect(parsed.ok(), "a batch that was written is JSON");
  const auto back = batch_from_json(run, *parsed);
  expect(back.ok(), "a batch that was written can be read");
  expect(to_text(batch_to_json(header.attempt, header.rank, header.host, *back)) == text,
         "a batch reads back to the same");
  for (const Record& record : *records) {
    if (const auto* step = std::get_if<StepRecord>(&record.body)) metrics_of(*step);
  }
  return 0;
}
