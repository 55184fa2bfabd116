#include "nmt/ops/observer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nmt/ops/every_op.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

/// Notes each call, and when the backend waits for its device.
class Log final : public OpObserver {
 public:
  explicit Log(Watch watch) : watch_(watch) {}
  Watch watch() const override { return watch_; }
  void enter(const char* range) override { lines.push_back(std::string("enter ") + range); }
  void leave() override { lines.emplace_back("leave"); }
  void begins(const OpRun& run) override { lines.push_back("begins " + text_of(run)); }
  void ran(const OpRun& run) override {
    lines.push_back("ran " + text_of(run));
    EXPECT_LE(run.begin.time_since_epoch().count(), run.end.time_since_epoch().count());
  }
  std::vector<std::string> lines;

 private:
  static std::string text_of(const OpRun& run) {
    std::string text(run.op);
    for (const OpField& field : run.fields) text += " " + std::string(field.name) + field.tensor.shape.text();
    return text;
  }
  Watch watch_;
};

/// Computes nothing.
class CountsWaits final : public EveryOp<CountsWaits> {
 public:
  void upload(const void*, Tensor) override {}
  void download(ConstTensor, void*) override {}
  void synchronize() override { ++waits; }
  std::string description() const override { return "counts waits"; }
  void launch(const auto&) { ++ops; }
  int waits = 0, ops = 0;

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose) override { return allocate_host(bytes); }
};

TEST(OpObserver, SeesOpsAndRangesInOrder) {
  Tensors tensors;
  const Tensor x = tensors.normal({3, 5}, DType::f32), y = tensors.zeros({3, 5}, DType::f32);
  const auto backend = make_cpu_backend(1);
  Log log(Watch::order);
  backend->observe(&log);
  {
    const WorkRange outer(*backend, "forward");
    const WorkRange inner(*backend, std::string("encoder.0"));
    backend->run(Fill{.y = y});
    backend->run(Add{.x = x, .y = y});
  }
  const Tensor part = tensors.normal({7}, DType::f32), sum = tensors.zeros({7}, DType::f32);
  backend->run(SumWithNorm{.parts = {part, part}, .sum = sum, .norms = tensors.zeros({1}, DType::f32)});
  EXPECT_EQ(log.lines, (std::vector<std::string>{"enter forward", "enter encoder.0", "ran fill y[3, 5]",
                                                 "begins add x[3, 5] y[3, 5]", "ran add x[3, 5] y[3, 5]", "leave",
                                                 "leave", "ran sum_with_norm parts[7] parts[7] sum[7] norms[1]"}));
  backend->observe(nullptr);
  const WorkRange range(*backend, "backward");
  backend->run(Fill{.y = y});
  EXPECT_EQ(log.lines.size(), 8U) << "nothing is seen once the observer is removed";
}

TEST(OpObserver, WaitsForTheDeviceOnlyToMeasureOrToRead) {
  Tensors tensors;
  const Tensor y = tensors.zeros({3, 5}, DType::f32);
  for (const auto& [watch, waits] : {std::pair{Watch::order, 0}, {Watch::times, 1}, {Watch::values, 1}}) {
    CountsWaits backend;
    backend.run(Fill{.y = y});
    EXPECT_EQ(backend.waits, 0) << "not observed";
    Log log(watch);
    backend.observe(&log);
    backend.run(Fill{.y = y});
    EXPECT_EQ(backend.waits, waits);
    EXPECT_EQ(backend.ops, 2);
    EXPECT_EQ(log.lines.size(), 1U);
  }
}

/// Every op of AllOps is seen with the fields that it names.
template <class... Ops>
void expect_names(OpList<Ops...>) {
  std::vector<std::string> names{std::string(Ops::name)...};
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end()) << "two ops have the same name";
}

TEST(OpObserver, EveryOpHasItsOwnName) {
  expect_names(AllOps());
}

}  // namespace
}  // namespace babelring
