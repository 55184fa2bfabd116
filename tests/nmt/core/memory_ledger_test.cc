#include "nmt/core/memory_ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace babelring {
namespace {

class MemoryLedgerTest : public testing::Test {
 protected:
  Buffer allocate(MemoryPurpose purpose, std::size_t bytes) {
    return MemoryLedger::enter(ledger_, purpose, allocate_host(bytes));
  }
  std::int64_t live(MemoryPurpose purpose) const { return ledger_->live().of(purpose); }

  std::shared_ptr<MemoryLedger> ledger_ = std::make_shared<MemoryLedger>();
};

TEST_F(MemoryLedgerTest, CountsUntilTheMemoryIsReleased) {
  Buffer weights = allocate(MemoryPurpose::weights, 1000);
  EXPECT_EQ(weights.bytes(), 1000U);
  {
    const Buffer scratch = allocate(MemoryPurpose::scratch, 300);
    EXPECT_EQ(live(MemoryPurpose::scratch), 300);
    EXPECT_EQ(ledger_->live().total(), 1300);
  }
  EXPECT_EQ(live(MemoryPurpose::scratch), 0);
  Buffer moved = std::move(weights);
  EXPECT_EQ(live(MemoryPurpose::weights), 1000);
  moved = allocate(MemoryPurpose::weights, 10);
  EXPECT_EQ(live(MemoryPurpose::weights), 10);
  moved = Buffer();
  EXPECT_EQ(ledger_->live(), MemoryUse());
}

TEST_F(MemoryLedgerTest, RemembersEachPeakAndWhatWasLiveAtTheTotalPeak) {
  Buffer scratch = allocate(MemoryPurpose::scratch, 500);
  scratch = Buffer();
  const Buffer weights = allocate(MemoryPurpose::weights, 400);
  Buffer gradients = allocate(MemoryPurpose::gradients, 200);
  gradients = Buffer();
  EXPECT_EQ(ledger_->peak().of(MemoryPurpose::scratch), 500);
  EXPECT_EQ(ledger_->peak().of(MemoryPurpose::weights), 400);
  EXPECT_EQ(ledger_->at_peak().of(MemoryPurpose::scratch), 0);
  EXPECT_EQ(ledger_->at_peak().of(MemoryPurpose::gradients), 200);
  EXPECT_EQ(ledger_->at_peak().total(), 600);
}

TEST_F(MemoryLedgerTest, ABufferMayOutliveTheOwnerOfTheLedger) {
  const Buffer buffer = allocate(MemoryPurpose::data, 64);
  const std::weak_ptr<MemoryLedger> ledger = ledger_;
  ledger_.reset();
  EXPECT_EQ(ledger.lock()->live().total(), 64);
}

TEST_F(MemoryLedgerTest, AnEmptyBufferIsNotCounted) {
  EXPECT_EQ(allocate(MemoryPurpose::data, 0).data(), nullptr);
  EXPECT_EQ(ledger_->peak(), MemoryUse());
}

TEST(MemoryPurpose, EachHasAnotherName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < memory_purposes; ++i) names.insert(name_of(static_cast<MemoryPurpose>(i)));
  EXPECT_EQ(names.size(), memory_purposes);
  EXPECT_EQ(name_of(MemoryPurpose::tools), "tools");
  EXPECT_EQ(explain(MemoryPurpose::activations), "activations, which data.micro_batch_tokens limits");
}

}  // namespace
}  // namespace babelring
