#pragma once

#include <type_traits>

namespace babelring {

/// `T` is `Struct` or `const Struct`. Lists of members that both readers and writers of a struct visit take it:
///
///   template <const_or_not<LogRecord> Log, class Visitor>
///   void visit_fields(Log& log, Visitor&& field);
template <class T, class Struct>
concept const_or_not = std::is_same_v<std::remove_const_t<T>, Struct>;

}  // namespace babelring
