#include "base/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

enum class Curve { inverse, linear, constant };

/// A value with a text form: a number of kilometres.
struct Distance {
  static Result<Distance> parse(std::string_view text) {
    if (!text.ends_with("km")) return Error{fmt::format("expected kilometres (5km), found '{}'", text)};
    return Distance{std::string(text)};
  }
  std::string text() const { return written; }
  std::string written = "1km";
};

struct Inner {
  double rate = 0.1;
  Curve schedule = Curve::inverse;
  Distance warm_up;
  void bind(OptionBinder& b) {
    b.number("rate", rate, 0, 1, "peak learning rate");
    b.choice("schedule", schedule,
             {{"inverse", Curve::inverse}, {"linear", Curve::linear}, {"constant", Curve::constant}},
             "how the rate moves");
    b.parsed("warm_up", warm_up, "before the peak");
  }
};

struct Outer {
  int layers = 6;
  std::int64_t seed = 1;
  bool shuffle = true;
  std::string name = "first run";
  std::vector<std::string> sets = {"valid"};
  Inner optimizer;
  std::string language = "no";
  void bind(OptionBinder& b) {
    b.integer("layers", layers, 1, 100, "encoder layers");
    b.integer("seed", seed, 0, INT64_MAX, "of everything random");
    b.flag("shuffle", shuffle, "shuffle each epoch");
    b.text("name", name, "shown on the dashboard");
    b.list("sets", sets, "held-out sets");
    b.group("optimizer", optimizer);
    b.text("language", language, "of the target");
  }
};

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() { outer_.bind(binder_); }
  void load(const std::string& yaml) { load_yaml(binder_, yaml, "run.yaml"); }
  Outer outer_;
  OptionBinder binder_;
};

TEST_F(OptionsTest, LoadsEveryTypeAndKeepsOtherDefaults) {
  load("layers: 4\nshuffle: false\nsets: [a, 'b,c', no]\noptimizer:\n  rate: 5e-4\n  schedule: linear\nlanguage: no\n");
  EXPECT_EQ(outer_.layers, 4);
  EXPECT_FALSE(outer_.shuffle);
  EXPECT_EQ(outer_.sets, (std::vector<std::string>{"a", "b,c", "no"}));
  EXPECT_EQ(outer_.optimizer.rate, 5e-4);
  EXPECT_EQ(outer_.optimizer.schedule, Curve::linear);
  EXPECT_EQ(outer_.optimizer.warm_up.text(), "1km");
  EXPECT_EQ(outer_.language, "no");
  EXPECT_EQ(outer_.seed, 1);
  EXPECT_EQ(outer_.name, "first run");
}

TEST(Options, AWordCanReplaceANumber) {
  double size = 0;
  OptionBinder binder;
  binder.number_or("size", size, 0.5, 50, "auto", -1, "megabytes at once");
  load_yaml(binder, "size: auto", "run.yaml");
  EXPECT_EQ(size, -1);
  EXPECT_EQ(dump_yaml(binder), "size: auto\n");
  EXPECT_EQ(binder.find("size")->type, "number or auto");
  apply_override(binder, "size=2.5");
  EXPECT_EQ(size, 2.5);
  EXPECT_EQ(dump_yaml(binder), "size: 2.5\n");
  for (const char* wrong : {"size=-1", "size=0.4", "size=51", "size=nan", "size=automatic"}) {
    EXPECT_THAT([&] { apply_override(binder, wrong); },
                ThrowsMessage<UsageFailure>(HasSubstr("expected a number from 0.5 to 50 or auto")));
  }
}

TEST(Options, AWordCanReplaceAnInteger) {
  std::int64_t budget = 0;
  OptionBinder binder;
  binder.integer_or("budget", budget, 0, 50, "auto", -1, "tokens at once");
  load_yaml(binder, "budget: auto", "run.yaml");
  EXPECT_EQ(budget, -1);
  EXPECT_EQ(dump_yaml(binder), "budget: auto\n");
  EXPECT_EQ(binder.find("budget")->type, "integer or auto");
  apply_override(binder, "budget=7");
  EXPECT_EQ(budget, 7);
  for (const char* wrong : {"budget=-1", "budget=51", "budget=automatic"}) {
    EXPECT_THAT([&] { apply_override(binder, wrong); },
                ThrowsMessage<UsageFailure>(HasSubstr("expected an integer from 0 to 50 or auto")));
  }
}

TEST_F(OptionsTest, EmptyTextKeepsDefaults) {
  for (const char* yaml : {"", "# nothing\n", "{}", "---\n"}) EXPECT_NO_THROW(load(yaml)) << yaml;
  EXPECT_EQ(outer_.layers, 6);
}

struct BadYaml {
  std::string yaml;
  const char* message;
};

class BadYamlTest : public OptionsTest, public testing::WithParamInterface<BadYaml> {};

TEST_P(BadYamlTest, NamesPlaceFoundAndExpected) {
  EXPECT_THAT([&] { load(GetParam().yaml); }, ThrowsMessage<UsageFailure>(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadYamlTest,
    testing::Values(
        BadYaml{"rate: 4\n", "run.yaml:1:1: unknown key 'rate'; did you mean 'optimizer.rate'?"},
        BadYaml{std::string("\xff\xfe"
                            "l\0a\0",
                            6),
                "run.yaml: not UTF-8 YAML"},
        BadYaml{std::string("l\0a\0", 4), "run.yaml: not UTF-8 YAML"},
        BadYaml{"layers: 4 # \xe9\n", "run.yaml: not UTF-8 YAML"},
        BadYaml{"layer: 4\n", "run.yaml:1:1: unknown key 'layer'; did you mean 'layers'?"},
        BadYaml{"optimizer:\n  rte: 4\n", "run.yaml:2:3: unknown key 'optimizer.rte'; did you mean 'optimizer.rate'?"},
        BadYaml{"layers: 4\nlayers: 5\n", "run.yaml:2:1: key 'layers' appears twice"},
        BadYaml{"optimizer: {rate: 1}\noptimizer: {rate: 1}\n", "run.yaml:2:1: key 'optimizer' appears twice"},
        BadYaml{"layers: four\n", "run.yaml:1:9: layers: expected an integer from 1 to 100, found 'four'"},
        BadYaml{"layers: 4.0\n", "run.yaml:1:9: layers: expected an integer from 1 to 100, found '4.0'"},
        BadYaml{"layers: 0\n", "run.yaml:1:9: layers: expected an integer from 1 to 100, found '0'"},
        BadYaml{"layers: 99999999999\n", "expected an integer from 1 to 100, found '99999999999'"},
        BadYaml{"optimizer: {rate: 2}\n", "run.yaml:1:19: optimizer.rate: expected a number from 0 to 1, found '2'"},
        BadYaml{"optimizer: {rate: .nan}\n", "expected a number from 0 to 1, found '.nan'"},
        BadYaml{"optimizer: {rate: nan}\n", "expected a number from 0 to 1, found 'nan'"},
        BadYaml{"optimizer: {rate: 1e999}\n", "expected a number from 0 to 1, found '1e999'"},
        BadYaml{"shuffle: yes\n", "run.yaml:1:10: shuffle: expected true or false, found 'yes'"},
        BadYaml{"optimizer: {schedule: liner}\n",
                "optimizer.schedule: expected inverse|linear|constant, found 'liner'; did you mean 'linear'?"},
        BadYaml{"optimizer: {warm_up: 5}\n", "run.yaml:1:22: optimizer.warm_up: expected kilometres (5km), found '5'"},
        BadYaml{"layers:\n", "layers: expected integer, found nothing"},
        BadYaml{"optimizer:\n", "optimizer: expected keys below it, found nothing"},
        BadYaml{"optimizer: 3\n", "run.yaml:1:12: optimizer: expected keys below it, found '3'"},
        BadYaml{"optimizer: [3]\n", "run.yaml:1:12: optimizer: expected keys below it, found a list"},
        BadYaml{"layers: [3]\n", "run.yaml:1:9: layers: expected integer, found a list"},
        BadYaml{"layers: {a: 3}\n", "layers: expected integer, found keys"},
        BadYaml{"sets: [a, [b]]\n", "found a list"}, BadYaml{"sets: [{a: b}]\n", "sets: expected a list of scalars"},
        BadYaml{"sets: [a, ~]\n", "sets: expected text, found nothing"},
        BadYaml{"name: \"a\\tb\"\n", "name: expected UTF-8 text without control characters, found 'a\\x09b'"},
        BadYaml{"layers\n", "run.yaml:1:1: expected 'key: value', found 'layers'"},
        BadYaml{"[layers]\n", "run.yaml:1:1: expected 'key: value', found a list"},
        BadYaml{"name: &a x\nlanguage: *a\n", "anchors are not supported"}, BadYaml{"sets: [a\n", "run.yaml:"},
        BadYaml{"a: b: c\n", "run.yaml:1:"},
        BadYaml{"layers: 4\n---\nlayers: 5\n", "run.yaml: expected one YAML document, found more"},
        BadYaml{"? [a]\n: 1\n", "found a list"}, BadYaml{"? {a: 1}\n: 1\n", "expected a key, found keys"}));

/// The error of `action`, which must be a ConfigError.
template <class Action>
ConfigError config_error(Action&& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error;
  }
  return {"", "no error"};
}

TEST_F(OptionsTest, ErrorsKeepTheirParts) {
  const ConfigError value = config_error([&] { load("layers: 4\noptimizer: {rate: 2}\n"); });
  EXPECT_EQ(value.file, "run.yaml");
  EXPECT_EQ(value.line, 2);
  EXPECT_EQ(value.column, 19);
  EXPECT_EQ(value.key, "optimizer.rate");
  EXPECT_EQ(value.detail, "optimizer.rate: expected a number from 0 to 1, found '2'");
  EXPECT_EQ(value.what(), "run.yaml:2:19: " + value.detail);

  const ConfigError key = config_error([&] { load("optimizer: {rte: 1}\n"); });
  EXPECT_EQ(key.key, "optimizer.rte");
  EXPECT_EQ(key.detail, "unknown key 'optimizer.rte'; did you mean 'optimizer.rate'?");

  const ConfigError file = config_error([&] { load(std::string("l\0a\0", 4)); });
  EXPECT_EQ(file.file, "run.yaml");
  EXPECT_EQ(file.line, 0);
  EXPECT_EQ(file.key, "");
  EXPECT_EQ(file.detail, "not UTF-8 YAML");

  const ConfigError given = config_error([&] { apply_override(binder_, "optimizer.warm_up=soon"); });
  EXPECT_EQ(given.file, "");
  EXPECT_EQ(given.key, "optimizer.warm_up");
  EXPECT_EQ(given.what(), given.detail);
  EXPECT_EQ(config_error([&] { apply_override(binder_, "layer=1"); }).key, "layer");
}

TEST_F(OptionsTest, SizeAndNestingAreBounded) {
  EXPECT_THAT([&] { load(std::string((1U << 20) + 1, '#')); },
              ThrowsMessage<UsageFailure>("run.yaml: 1048577 bytes, expected at most 1048576"));
  EXPECT_THROW(load(std::string(100000, '[')), UsageFailure);
  EXPECT_THROW(load(std::string(100000, '{')), UsageFailure);
}

TEST_F(OptionsTest, OverridesByKey) {
  apply_override(binder_, "optimizer.rate=0.5");
  apply_override(binder_, "name=a=b");
  apply_override(binder_, "sets=x,y");
  EXPECT_EQ(outer_.optimizer.rate, 0.5);
  EXPECT_EQ(outer_.name, "a=b");
  EXPECT_EQ(outer_.sets, (std::vector<std::string>{"x", "y"}));
  apply_override(binder_, "sets=");
  EXPECT_TRUE(outer_.sets.empty());
}

/// As --check-config prints lists; other brackets belong to an item.
TEST_F(OptionsTest, AListOfACommandLineMayHaveBrackets) {
  for (const char* text : {"sets=[a=b:test,y z]", "sets=[ a=b:test , y z ]"}) {
    apply_override(binder_, text);
    EXPECT_EQ(outer_.sets, (std::vector<std::string>{"a=b:test", "y z"})) << text;
  }
  apply_override(binder_, "sets=[]");
  EXPECT_TRUE(outer_.sets.empty());
  apply_override(binder_, "sets=x,data[1], y");
  EXPECT_EQ(outer_.sets, (std::vector<std::string>{"x", "data[1]", " y"}));
  for (const char* text : {"[", "[a,b", "[a],b"}) {
    EXPECT_THAT([&] { apply_override(binder_, fmt::format("sets={}", text)); },
                ThrowsMessage<UsageFailure>(
                    fmt::format("override sets: expected a list such as a,b or [a, b], found '{}'", text)));
  }
}

TEST_F(OptionsTest, BadOverridesNameTheKey) {
  EXPECT_THAT([&] { apply_override(binder_, "layers"); },
              ThrowsMessage<UsageFailure>("override 'layers': expected key=value"));
  EXPECT_THAT([&] { apply_override(binder_, "optimiser.rate=1"); },
              ThrowsMessage<UsageFailure>("override: unknown key 'optimiser.rate'; did you mean 'optimizer.rate'?"));
  EXPECT_THAT([&] { apply_override(binder_, "layers=x"); },
              ThrowsMessage<UsageFailure>("override layers: expected an integer from 1 to 100, found 'x'"));
}

TEST_F(OptionsTest, DumpReadsBackEqual) {
  for (const char* name : {"plain", "",      "null", "~",        "no", "a: b", "# x", "say \"hi\" \\n", "-x", "-",
                           "-5",    "Grüße", "{a}",  " padded ", "'",  "a,b",  "1e3", "true",           "@x", "%x",
                           "!x",    "&x",    "*x",   "---",      "..."}) {
    outer_.name = name;
    outer_.sets = {name, "two"};
    outer_.optimizer.rate = 1.0 / 3;
    outer_.seed = INT64_MAX;
    outer_.optimizer.schedule = Curve::constant;
    outer_.optimizer.warm_up = {"2.50km"};
    Outer copy;
    copy.sets.clear();
    OptionBinder binder;
    copy.bind(binder);
    const std::string yaml = dump_yaml(binder_);
    ASSERT_NO_THROW(load_yaml(binder, yaml, "dump")) << yaml;
    EXPECT_EQ(copy.name, name);
    EXPECT_EQ(copy.sets, outer_.sets);
    EXPECT_EQ(copy.optimizer.rate, 1.0 / 3);
    EXPECT_EQ(copy.seed, INT64_MAX);
    EXPECT_EQ(copy.optimizer.schedule, Curve::constant);
    EXPECT_EQ(copy.optimizer.warm_up.text(), "2.50km");
    EXPECT_EQ(dump_yaml(binder), yaml);
  }
}

TEST_F(OptionsTest, DumpIsNestedInOrderOfDeclaration) {
  EXPECT_EQ(dump_yaml(binder_),
            "layers: 6\nseed: 1\nshuffle: true\nname: \"first run\"\nsets: [valid]\n"
            "optimizer:\n  rate: 0.1\n  schedule: inverse\n  warm_up: 1km\nlanguage: no\n");
}

TEST_F(OptionsTest, DescribesEveryKey) {
  const std::string table = describe(binder_);
  EXPECT_THAT(table, HasSubstr("optimizer.rate      number                   0.1        peak learning rate\n"));
  EXPECT_THAT(table, HasSubstr("optimizer.schedule  inverse|linear|constant  inverse    how the rate moves\n"));
  EXPECT_THAT(table, HasSubstr("optimizer.warm_up   text                     1km        before the peak\n"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 10);
}

TEST(OptionBinder, RefusesTheSameKeyTwice) {
  OptionBinder binder;
  bool a = false;
  binder.flag("a", a, "");
  EXPECT_THAT([&] { binder.flag("a", a, ""); }, ThrowsMessage<Failure>("options: key 'a' is bound twice"));
}

}  // namespace
}  // namespace babelring
