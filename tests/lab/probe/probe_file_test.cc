#include "lab/probe/probe_file.h"

#include <gmock/gmock.h>

#include <string>

#include "base/failure.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

ProbeRecord some_record() {
  static const float values[] = {1, 2, 3};
  return {.update = 4,
          .micro_batch = 0,
          .phase = "forward",
          .layer = "encoder.0",
          .op = "add",
          .member = "y",
          .occurrence = 2,
          .role = ProbeRole::output,
          .shape = {3},
          .dtype = DType::f32,
          .summary = summarize(ConstTensor(values, Shape{3}, DType::f32)),
          .inputs = {}};
}

std::string header_line() {
  return to_text(to_json(
             ProbeHeader{.program = "1", .mode = "training", .weights = "w", .environment = {{"kernel", "Linux"}}})) +
         "\n";
}

std::string end_line(int records) {
  return to_text(json::object{{"end", true}, {"records", records}, {"batch", "b"}}) + "\n";
}

TEST(ProbeFile, ReadsWhatWasWritten) {
  const ProbeRecord record = some_record();
  const Probe probe = parse_probe(header_line() + to_text(to_json(record)) + "\n" + end_line(1), "p");
  ASSERT_EQ(probe.records.size(), 1U);
  EXPECT_EQ(probe.records[0].key(), "4/0/forward/encoder.0/add/y/2");
  EXPECT_EQ(probe.records[0].summary, record.summary);
  EXPECT_EQ(probe.records[0].shape, record.shape);
  EXPECT_EQ(probe.records[0].role, ProbeRole::output);
  EXPECT_EQ(probe.header.environment.at("kernel").as_string(), "Linux");
  EXPECT_EQ(probe.batch, "b");
  EXPECT_EQ(probe.header.weights, "w");
}

/// They do not say what is left out of the inputs, so what may be is.
TEST(ProbeFile, ReadsOlderFiles) {
  json::object record = to_json(some_record());
  record.erase("left_out");
  record.erase("batch");
  const auto read = [&](const std::string& layers, int ranks, const char* op) {
    const json::object header = to_json(ProbeHeader{.ranks = ranks, .layers = layers});
    record["op"] = op;
    return parse_probe(to_text(header) + "\n" + to_text(record) + "\n" + end_line(1), "p").records[0];
  };
  EXPECT_FALSE(read("all", 1, "add").left_out);
  EXPECT_TRUE(read("first10", 1, "add").left_out);
  EXPECT_TRUE(read("all", 2, "gradient_sum").left_out);
  EXPECT_TRUE(read("all", 1, "add").batch);
}

void expect_refused(const std::string& text, const std::string& message) {
  EXPECT_THAT([&] { parse_probe(text, "p.jsonl"); }, ThrowsMessage<Failure>(HasSubstr(message))) << text;
}

TEST(ProbeFile, RefusesOtherFilesAndTornOnes) {
  const std::string header = header_line(), record = to_text(to_json(some_record())) + "\n";
  expect_refused("", "p.jsonl: empty file; expected a probe");
  EXPECT_THAT([] { read_probe("absent.jsonl"); }, ThrowsMessage<Failure>(HasSubstr("no such file, expected a probe")));
  expect_refused("{\"a\":1}\n", "p.jsonl:1: no probe: expected a first line with \"format\":\"babelring-probe\"");
  expect_refused("text\n", "p.jsonl:1: ");
  expect_refused("[]\n", "p.jsonl:1: expected a JSON object");
  expect_refused(header + record, "p.jsonl: torn: no line with the member 'end' behind 1 records");
  expect_refused(header + record.substr(0, 30), "p.jsonl: torn: the last line has no end");
  expect_refused(header + record + end_line(2), "p.jsonl:3: expected 2 records before this line");
  expect_refused(header + end_line(0) + record, "p.jsonl:3: a line behind the end of the probe");
  std::string newer = header;
  newer.replace(newer.find("\"version\":2"), 11, "\"version\":3");
  expect_refused(newer, "p.jsonl:1: probe format version 3, this program reads version 2");
}

TEST(ProbeFile, NamesTheMemberThatIsWrong) {
  const auto with = [](const char* member, json::value value) {
    json::object object = to_json(some_record());
    object[member] = std::move(value);
    return header_line() + to_text(object) + "\n" + end_line(1);
  };
  expect_refused(with("update", "4"), "p.jsonl:2: member 'update': expected an integer from 0 to");
  expect_refused(with("phase", 4), "p.jsonl:2: member 'phase': expected a text");
  expect_refused(with("mean", nullptr), "p.jsonl:2: member 'mean': expected a number");
  expect_refused(with("dtype", "f64"), "p.jsonl:2: member 'dtype': expected f32, bf16 or i32, found 'f64'");
  expect_refused(with("role", "x"), "p.jsonl:2: member 'role': expected output, ");
  expect_refused(with("sha256", "ab"), "p.jsonl:2: member 'sha256': expected 64 hexadecimal digits");
  expect_refused(with("elements", "00"), "p.jsonl:2: member 'elements': expected 24 hexadecimal digits, found 2");
  expect_refused(with("elements", json::string(24, 'x')), "expected hexadecimal digits, found 'xxxxxxxx'");
  expect_refused(with("shape", json::array{1, 2, 3, 4, 5}), "p.jsonl:2: member 'shape': expected up to 4 extents");
  expect_refused(with("shape", json::array{-1}), "p.jsonl:2: member 'shape': expected integers from 0 to");
  expect_refused(with("shape", json::array{std::int64_t{1} << 40, std::int64_t{1} << 40}), "too many elements");
  expect_refused(with("record", 7), "p.jsonl:2: record 7 where 0 was expected");
  expect_refused(with("left_out", 1), "p.jsonl:2: member 'left_out': expected true or false");
  expect_refused(with("inputs", json::array{0}), "p.jsonl:2: member 'inputs': expected integers from 0 to -1");
}

}  // namespace
}  // namespace babelring
