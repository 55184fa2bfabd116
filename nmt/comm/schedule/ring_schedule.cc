#include "nmt/comm/schedule/ring_schedule.h"

#include <algorithm>

namespace babelring {

int RingCursor::count() const {
  return static_cast<int>(std::min(layout_.segment, layout_.chunk_count(chunk()) - offset_));
}

void RingCursor::next() {
  offset_ += layout_.segment;
  skip_empty();
}

void RingCursor::skip_empty() {
  while (!at_end() && offset_ >= layout_.chunk_count(chunk())) {
    ++step_;
    offset_ = 0;
  }
}

}  // namespace babelring
