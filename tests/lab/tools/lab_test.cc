#include "lab/tools/lab.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/model/transformer.h"

namespace babelring {
namespace {

/// A tool that writes down its calls.
class Tool final : public UpdateObserver, public OpObserver {
 public:
  Tool(std::string name, Watch watch, std::vector<std::string>& calls)
      : name_(std::move(name)), watch_(watch), calls_(calls) {}
  bool votes = false, observes = true;

  bool votes_for_trace() override {
    note("vote");
    return votes;
  }
  OpObserver* begin(const UpdateStart& start) override {
    note("begin " + std::to_string(start.update));
    return observes ? this : nullptr;
  }
  void end(const StepRecord& record) override { note("end " + std::to_string(record.update)); }
  void finish() override { note("finish"); }
  Watch watch() const override { return watch_; }
  void enter(const char* range) override { note(std::string("enter ") + range); }
  void leave() override { note("leave"); }
  void begins(const OpRun& run) override { note("begins " + std::string(run.op)); }
  void ran(const OpRun& run) override { note("ran " + std::string(run.op)); }

 private:
  void note(const std::string& call) { calls_.push_back(name_ + " " + call); }

  std::string name_;
  Watch watch_;
  std::vector<std::string>& calls_;
};

class LabTest : public testing::Test {
 protected:
  Tool& add(const std::string& name, Watch watch) {
    auto tool = std::make_unique<Tool>(name, watch, calls);
    Tool& added = *tool;
    lab.add(std::move(tool));
    return added;
  }

  std::vector<std::string> calls;
  Lab lab;
  TrainConfig config = [] {
    TrainConfig small;
    small.model = {.encoder_layers = 1, .decoder_layers = 1, .width = 8, .heads = 2, .inner = 8};
    return small;
  }();
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> communicator = make_single_communicator();
  ModelReplica replica{config, 10, *backend, *communicator};
  const UpdateStart start{.update = 7, .replica = replica};
};

TEST_F(LabTest, PassesEverythingToAllTools) {
  add("a", Watch::order);
  add("b", Watch::values).votes = true;
  EXPECT_TRUE(lab.votes_for_trace());
  OpObserver* observer = lab.begin(start);
  ASSERT_NE(observer, nullptr);
  EXPECT_EQ(observer->watch(), Watch::values);
  observer->enter("forward");
  observer->begins({.op = "add"});
  observer->ran({.op = "add"});
  observer->leave();
  lab.end({.update = 7});
  lab.finish();
  EXPECT_EQ(calls,
            (std::vector<std::string>{"a vote", "b vote", "a begin 7", "b begin 7", "a enter forward",
                                      "b enter forward", "a begins add", "b begins add", "a ran add", "b ran add",
                                      "b leave", "a leave", "a end 7", "b end 7", "a finish", "b finish"}));
}

TEST_F(LabTest, ObservesNoOpsIfNoToolDoes) {
  EXPECT_EQ(lab.begin(start), nullptr);
  EXPECT_FALSE(lab.votes_for_trace());
  Tool& first = add("a", Watch::order);
  Tool& second = add("b", Watch::times);
  first.observes = false;
  EXPECT_EQ(lab.begin(start), static_cast<OpObserver*>(&second)) << "a single observer needs no list";
  second.observes = false;
  EXPECT_EQ(lab.begin(start), nullptr);
}

}  // namespace
}  // namespace babelring
