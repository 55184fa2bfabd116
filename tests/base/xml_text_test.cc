#include "base/xml_text.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

TEST(XmlText, EscapesWhatMarkupReads) {
  EXPECT_EQ(xml_text("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(xml_text("Größe 'x'"), "Größe 'x'");
}

}  // namespace
}  // namespace babelring
