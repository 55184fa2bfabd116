#include "nmt/ops/elementwise.h"

#include "nmt/ops/check.h"

namespace babelring {

void Dropout::check() const {
  const OpCheck check(name);
  check.rank({"x", x}, 2);
  check.floating({"x", x});
  check.shape({"y", y}, x.shape, {"x", x});
  check.same_type({"y", y}, {"x", x});
  check.same_or_distinct({"y", y}, {{"x", x}});
  check.dropout(key);
}

void ResidualDropout::check() const {
  const OpCheck check(name);
  check.rank({"residual", residual}, 2);
  check.floating({"residual", residual});
  for (const Field& field : {Field{"branch", branch}, Field{"y", y}}) {
    check.shape(field, residual.shape, {"residual", residual});
    check.same_type(field, {"residual", residual});
  }
  check.contiguous({{"residual", residual}, {"branch", branch}, {"y", y}});
  check.same_or_distinct({"y", y}, {{"residual", residual}, {"branch", branch}});
  check.dropout(key);
}

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
