#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/options/options.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Node {
  std::string name;
  int size = 2;
  double rate = 0.5;
  std::vector<std::string> parents;
  void bind(OptionBinder& b) {
    b.text("name", name, "its name");
    b.integer("size", size, 2, 100, "number of states");
    b.number("rate", rate, 0, 1, "its rate");
    b.list("parents", parents, "names of others");
  }
};

struct Graph {
  std::vector<Node> nodes;
  std::int64_t seed = 1;
  void bind(OptionBinder& b) {
    b.items("nodes", nodes, "the nodes");
    b.integer("seed", seed, 0, 100, "of the graph");
  }
};

struct Whole {
  std::string name = "x";
  Graph graph;
  void bind(OptionBinder& b) {
    b.text("name", name, "of the run");
    b.group("graph", graph);
  }
};

class OptionItemsTest : public testing::Test {
 protected:
  OptionItemsTest() { whole_.bind(binder_); }
  OptionPlaces load(const std::string& yaml) { return load_yaml(binder_, yaml, "run.yaml"); }
  Whole whole_;
  OptionBinder binder_;
};

constexpr const char* two_nodes =
    "graph:\n"
    "  nodes:\n"
    "    - {name: A, size: 4, parents: [B, C]}\n"
    "    - name: \"B 2\"\n"
    "      rate: 0.25\n"
    "  seed: 7\n";

TEST_F(OptionItemsTest, LoadsMappingsInBothStylesAndKeepsDefaults) {
  load(two_nodes);
  ASSERT_EQ(whole_.graph.nodes.size(), 2);
  const Node &a = whole_.graph.nodes[0], &b = whole_.graph.nodes[1];
  EXPECT_EQ(a.name, "A");
  EXPECT_EQ(a.size, 4);
  EXPECT_EQ(a.rate, 0.5);
  EXPECT_THAT(a.parents, ElementsAre("B", "C"));
  EXPECT_EQ(b.name, "B 2");
  EXPECT_EQ(b.size, 2);
  EXPECT_EQ(b.rate, 0.25);
  EXPECT_EQ(whole_.graph.seed, 7);
}

TEST_F(OptionItemsTest, AListReplacesTheItemsThatWereThere) {
  whole_.graph.nodes.resize(3);
  load("graph: {nodes: [{name: only}]}");
  ASSERT_EQ(whole_.graph.nodes.size(), 1);
  EXPECT_EQ(whole_.graph.nodes[0].name, "only");
  load("graph: {nodes: []}");
  EXPECT_TRUE(whole_.graph.nodes.empty());
}

TEST_F(OptionItemsTest, AListInPlaceOfASectionIsItsOnlyItems) {
  load("graph:\n  - {name: A}\n  - {name: B}\n");
  ASSERT_EQ(whole_.graph.nodes.size(), 2);
  EXPECT_EQ(whole_.graph.nodes[1].name, "B");
}

TEST_F(OptionItemsTest, DumpIsOneLineAnItemAndReadsBackEqual) {
  EXPECT_EQ(dump_yaml(binder_), "name: x\ngraph:\n  nodes: []\n  seed: 1\n");
  load(two_nodes);
  const std::string yaml = dump_yaml(binder_);
  EXPECT_EQ(yaml,
            "name: x\ngraph:\n  nodes:\n"
            "    - {name: A, size: 4, rate: 0.5, parents: [B, C]}\n"
            "    - {name: \"B 2\", size: 2, rate: 0.25, parents: []}\n"
            "  seed: 7\n");
  Whole copy;
  OptionBinder binder;
  copy.bind(binder);
  load_yaml(binder, yaml, "dump");
  EXPECT_EQ(dump_yaml(binder), yaml);
  EXPECT_EQ(binder.find("graph.nodes")->get(), binder_.find("graph.nodes")->get());
}

TEST_F(OptionItemsTest, OverridesCountFromOne) {
  load(two_nodes);
  apply_override(binder_, "graph.nodes.2.rate=0.1");
  apply_override(binder_, "graph.nodes.1.parents=D");
  EXPECT_EQ(whole_.graph.nodes[1].rate, 0.1);
  EXPECT_THAT(whole_.graph.nodes[0].parents, ElementsAre("D"));
}

TEST_F(OptionItemsTest, BadOverridesNameTheItem) {
  const auto refused = [&](const char* assignment, const char* message) {
    EXPECT_THAT([&] { apply_override(binder_, assignment); }, ThrowsMessage<UsageFailure>(message));
  };
  refused("graph.nodes.1.rate=1", "override graph.nodes.1.rate: graph.nodes has no items");
  load(two_nodes);
  refused("graph.nodes.3.rate=1",
          "override graph.nodes.3.rate: expected an item of graph.nodes from 1 to 2, found '3'");
  refused("graph.nodes.0.rate=1",
          "override graph.nodes.0.rate: expected an item of graph.nodes from 1 to 2, found '0'");
  refused("graph.nodes.A.rate=1",
          "override graph.nodes.A.rate: expected an item of graph.nodes from 1 to 2, found 'A'");
  refused("graph.nodes.1.rte=1", "override: unknown key 'graph.nodes.1.rte'; did you mean 'graph.nodes.1.rate'?");
  refused("graph.nodes.1.rate=2", "override graph.nodes.1.rate: expected a number from 0 to 1, found '2'");
  refused("graph.nodes=A", "override graph.nodes: expected the keys of one item (graph.nodes.1.KEY=VALUE), found 'A'");
}

TEST_F(OptionItemsTest, BadYamlNamesThePlace) {
  const auto refused = [&](const std::string& yaml, const char* message) {
    EXPECT_THAT([&] { load(yaml); }, ThrowsMessage<UsageFailure>(HasSubstr(message))) << yaml;
  };
  refused("graph:\n  nodes:\n    - {name: A}\n    - {size: 1}\n",
          "run.yaml:4:14: graph.nodes.2.size: expected an integer from 2 to 100, found '1'");
  refused("graph: {nodes: [{nme: A}]}",
          "run.yaml:1:18: unknown key 'graph.nodes.1.nme'; did you mean 'graph.nodes.1.name'?");
  refused("graph: {nodes: [{name: A, name: B}]}", "run.yaml:1:27: key 'graph.nodes.1.name' appears twice");
  refused("graph: {nodes: [{name: A}, B]}", "run.yaml:1:28: graph.nodes.2: expected keys, found 'B'");
  refused("graph: {nodes: [[]]}", "run.yaml:1:17: graph.nodes.1: expected keys, found a list");
  refused("graph: {nodes: [~]}", "graph.nodes.1: expected keys, found nothing");
  refused("graph: {nodes: A}", "run.yaml:1:16: graph.nodes: expected list of keys, found 'A'");
  refused("graph: {nodes: {name: A}}", "run.yaml:1:16: graph.nodes: expected list of keys, found keys");
  refused("graph: {nodes: }", "graph.nodes: expected list of keys, found nothing");
  refused("graph: {nodes: [{parents: [{a: b}]}]}", "graph.nodes.1.parents: expected a list of scalars, found keys");
  refused("graph: {nodes: []}\ngraph.nodes: [{name: A}]\n", "run.yaml:2:1: key 'graph.nodes' appears twice");
  std::string many = "graph: {nodes: [{}";
  for (int i = 0; i < 1024; ++i) many += ",{}";
  refused(many + "]}", "expected at most 1024 items");
  refused("name: [a]", "run.yaml:1:7: name: expected text, found a list");
}

TEST_F(OptionItemsTest, PlacesLeadErrorsFoundLaterBackToTheText) {
  const OptionPlaces places = load(two_nodes);
  const auto place = [&](const char* key) {
    const ConfigError error = with_place(ConfigError(key, "wrong"), places, "run.yaml");
    return fmt::format("{}:{} {}", error.line, error.column, error.what());
  };
  EXPECT_EQ(place("graph.nodes.1.parents"), "3:26 run.yaml:3:26: wrong");
  EXPECT_EQ(place("graph.nodes.2.rate"), "5:7 run.yaml:5:7: wrong");
  EXPECT_EQ(place("graph.nodes.2.parents"), "4:7 run.yaml:4:7: wrong");  // not given: its item
  EXPECT_EQ(place("graph.nodes"), "2:3 run.yaml:2:3: wrong");
  EXPECT_EQ(place("name"), "0:0 wrong");
}

TEST_F(OptionItemsTest, DescribesTheKeysOfAnItem) {
  EXPECT_THAT(describe(binder_), HasSubstr("graph.nodes.N.rate     number        0.5      its rate\n"));
  EXPECT_THAT(describe(binder_), HasSubstr("graph.nodes            list of keys  []       the nodes\n"));
}

/// Items that hold a group.
struct Nested {
  Graph graph;
  void bind(OptionBinder& b) { b.group("graph", graph); }
};

TEST(OptionItems, RefusesNestedKeysOfAnItem) {
  std::vector<Nested> all;
  OptionBinder binder;
  EXPECT_THAT([&] { binder.items("all", all, ""); },
              ThrowsMessage<Failure>("options: key 'all.N.graph.nodes' of an item is nested"));
}

struct Weights {
  std::vector<OptionMap> mix;
  int size = 1;
  void bind(OptionBinder& b) {
    b.maps("mix", mix, "weights");
    b.integer("size", size, 0, 9, "of all");
  }
};

class OptionMapsTest : public testing::Test {
 protected:
  OptionMapsTest() { weights_.bind(binder_); }
  std::string refusal(const std::string& yaml) {
    try {
      load_yaml(binder_, yaml, "run.yaml");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  }
  Weights weights_;
  OptionBinder binder_;
};

TEST_F(OptionMapsTest, LoadsOneMapOrMoreAndReadsTheDumpBack) {
  EXPECT_EQ(dump_yaml(binder_), "mix: {}\nsize: 1\n");
  for (const char* dump : {"mix: {b: 0.7, a: 0.3}\nsize: 2\n",
                           "mix: [{until: \"50%\", a: 1}, {\"b c\": -1}]\nsize: 2\n", "mix: {}\nsize: 2\n"}) {
    load_yaml(binder_, dump, "dump");
    EXPECT_EQ(dump_yaml(binder_), dump);
  }
  load_yaml(binder_, "mix:\n  - a: 1\n    b: x\n  - {}\nsize: 3\n", "block");
  ASSERT_EQ(weights_.mix.size(), 2U);
  EXPECT_THAT(weights_.mix[0], ElementsAre(testing::Pair("a", "1"), testing::Pair("b", "x")));
  EXPECT_TRUE(weights_.mix[1].empty());
  EXPECT_EQ(weights_.size, 3);
  load_yaml(binder_, "mix: []", "none");
  EXPECT_TRUE(weights_.mix.empty());
}

TEST_F(OptionMapsTest, OverridesAreInFlowStyle) {
  apply_override(binder_, "mix=[{until: 5u, a: 1}, {b: 2}]");
  EXPECT_EQ(binder_.find("mix")->get(), "[{until: 5u, a: 1}, {b: 2}]");
  for (const char* wrong :
       {"mix=a", "mix=", "mix={a: {b: 1}}", "mix={a: 1", "mix={a:1}", "mix=[a]", "mix={a: 1, a: 2}"}) {
    EXPECT_THAT([&] { apply_override(binder_, wrong); },
                ThrowsMessage<ConfigError>(
                    HasSubstr("override mix: expected a map such as {a: 1, b: 2} or a list of maps, found '")))
        << wrong;
  }
  EXPECT_EQ(binder_.find("mix")->get(), "[{until: 5u, a: 1}, {b: 2}]") << "a refused override changes nothing";
}

TEST_F(OptionMapsTest, WrongYamlIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("mix: {a: {b: 1}}"), "run.yaml:1:10: mix: expected a value for 'a', found keys");
  EXPECT_EQ(refusal("mix: {a: [1]}"), "run.yaml:1:10: mix: expected a value for 'a', found a list");
  EXPECT_EQ(refusal("mix: [{a: 1}, b]"), "run.yaml:1:15: mix: expected keys, found 'b'");
  EXPECT_EQ(refusal("mix: [[{a: 1}]]"), "run.yaml:1:7: mix: expected keys, found a list");
  EXPECT_THAT(refusal("mix:\n  a:\n"), HasSubstr("mix: expected a value for 'a', found nothing"));
  EXPECT_THAT(refusal("mix: {a: 1, a: 2}"), HasSubstr("mix: expected each key once, found 'a'"));
  EXPECT_THAT(refusal("mix: 5"), HasSubstr("mix: expected a map such as {a: 1, b: 2} or a list of maps, found '5'"));
  EXPECT_THAT(refusal("mix:\n"), HasSubstr("mix: expected map or maps, found nothing"));
}

}  // namespace
}  // namespace babelring
