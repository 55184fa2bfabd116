#include "nmt/ops/elementwise.h"

#include "nmt/ops/check.h"

namespace babelring {

void Cast::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.floating({"y", y});
  check.contiguous({{"x", x}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"x", x}});
}

void Fill::check() const {
  const OpCheck check(name);
  check.rank({"y", y}, y.shape.rank());
  check.floating({"y", y});
  check.contiguous({{"y", y}});
}

void Add::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, x.shape.rank());
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.same_type({"y", y}, {"x", x});
  check.contiguous({{"x", x}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"x", x}});
}

}  // namespace babelring
