// A YAML configuration, or after "=" a key=value override. What is accepted survives being dumped and loaded again.

#include <string>
#include <string_view>
#include <vector>

#include "base/options/options.h"
#include "tests/fuzz/expect.h"

namespace {

using namespace babelring;

struct Inner {
  double rate = 0.1;
  std::string kind = "a";
  std::vector<std::string> names;
  void bind(OptionBinder& binder) {
    binder.number("rate", rate, 0, 1, "a share");
    binder.choice("kind", kind, {"a", "b", "no"}, "one of three");
    binder.list("names", names, "texts");
  }
};

struct Item {
  std::string name;
  double rate = 0.5;
  std::vector<std::string> parents;
  void bind(OptionBinder& binder) {
    binder.text("name", name, "a text");
    binder.number("rate", rate, 0, 1, "a share");
    binder.list("parents", parents, "texts");
  }
};

struct Outer {
  std::string name = "x";
  bool flag = false;
  int small = 1;
  std::int64_t large = 1;
  Inner inner;
  std::vector<Item> items;
  void bind(OptionBinder& binder) {
    binder.text("name", name, "a text");
    binder.flag("flag", flag, "yes or no");
    binder.integer("small", small, -10, 10, "a small one");
    binder.integer("large", large, 0, std::int64_t{1} << 40, "a large one");
    binder.group("inner", inner);
    binder.items("items", items, "a list of keys");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Outer options;
  OptionBinder binder;
  options.bind(binder);
  try {
    if (!text.empty() && text.front() == '=') {
      apply_override(binder, text.substr(1));
    } else {
      load_yaml(binder, text, "fuzz.yaml");
    }
  } catch (const UsageFailure& failure) {
    expect(*failure.what() != 0, "a refusal has a reason");
    return 0;
  }
  const std::string dumped = dump_yaml(binder);
  Outer again;
  OptionBinder other;
  again.bind(other);
  load_yaml(other, dumped, "dumped.yaml");  // throws: that is the finding
  expect(dump_yaml(other) == dumped, "a configuration reads back to the same");
  return 0;
}
