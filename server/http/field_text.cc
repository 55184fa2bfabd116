#include "server/http/field_text.h"

namespace babelring::http {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string media_type_of(std::string_view content_type) {
  return lower(trimmed(content_type.substr(0, content_type.find(';'))));
}

}  // namespace babelring::http
