#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/collective.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {

/// An all-gather between hosts by every rank of a host. Complete when all ranks of this host have received their parts,
/// so that each may read those of the others.
class HostGather final : public Collective {
 public:
  /// `own`: this rank's all-gather. `number`: the number of all-gathers started on `board` before this one.
  /// `local_ranks` names the board's ranks in messages.
  HostGather(std::unique_ptr<Collective> own, std::shared_ptr<const SharedBoard> board, std::int64_t number,
             std::vector<int> local_ranks)
      : own_(std::move(own)), board_(std::move(board)), number_(number), local_ranks_(std::move(local_ranks)) {}

  void begin() override { own_->begin(); }
  Progress advance() override;
  std::string name() const override { return own_->name(); }
  std::int64_t bytes() const override { return own_->bytes(); }
  std::int64_t payload_bytes() const override { return 0; }
  int waiting_for() const override;
  bool notified() const override { return received_; }

 private:
  std::unique_ptr<Collective> own_;
  std::shared_ptr<const SharedBoard> board_;
  std::int64_t number_;
  std::vector<int> local_ranks_;
  bool received_ = false, published_ = false;
};

}  // namespace babelring
