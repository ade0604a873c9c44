#!/bin/sh
# Writes src/folio/text/unicode_ranges.cc from two files of the Unicode Character Database:
#   scripts/unicode_ranges.sh DIR > src/folio/text/unicode_ranges.cc
# DIR holds UnicodeData.txt and PropList.txt of Unicode 16.0, published at
# https://www.unicode.org/Public/16.0.0/ucd/. The same input gives the same bytes.
set -eu

dir=${1:?usage: scripts/unicode_ranges.sh DIR}
for file in "$dir/PropList.txt" "$dir/UnicodeData.txt"; do
  if [ ! -f "$file" ]; then
    echo "unicode_ranges: $file is not there" >&2
    exit 1
  fi
done

# Any awk will do: no strtonum, no hexadecimal constants. White_Space goes before the general
# category, and PropList.txt is read first.
LC_ALL=C awk -F ';' '
  function Hex(digits,  i, value) {
    value = 0
    for (i = 1; i <= length(digits); ++i) {
      value = value * 16 + index("0123456789ABCDEF", substr(digits, i, 1)) - 1
    }
    return value
  }
  # The classes of the codes from `first` to `last`; codes never go down.
  function Put(first, last, category,  code) {
    if (first > next_code) Change(next_code, 0)
    for (code = first; code <= last; ++code) Change(code, code in space ? 1 : class_of[category] + 0)
    next_code = last + 1
  }
  function Change(code, class) {
    if (class == current) return
    if (code > 0) runs[++count] = (code - first) * 16 + current
    current = class
    first = code
  }
  BEGIN {
    current = -1
    split("N Nd Nl No", names, " "); for (i in names) class_of[names[i]] = 2
    split("Mn Mc Me", names, " "); for (i in names) class_of[names[i]] = 3
    class_of["Lu"] = 4; class_of["Lt"] = 5; class_of["Ll"] = 6; class_of["Lm"] = 7; class_of["Lo"] = 8
  }
  FILENAME ~ /PropList.txt$/ {
    sub(/#.*/, "")
    gsub(/[ \t\r]/, "")
    if ($2 != "White_Space") next
    if (split($1, ends, /\.\./) == 1) ends[2] = ends[1]
    for (code = Hex(ends[1]); code <= Hex(ends[2]); ++code) space[code] = 1
    next
  }
  # Large blocks have two lines, named <..., First> and <..., Last>.
  $2 ~ /, First>$/ { block = Hex($1); next }
  $2 ~ /, Last>$/ { Put(block, Hex($1), $3); next }
  NF > 2 { Put(Hex($1), Hex($1), $3) }
  END {
    Change(next_code, 0)
    runs[++count] = (1114112 - first) * 16 + current
    print "// Written by scripts/unicode_ranges.sh from Unicode 16.0: do not edit."
    print "#include <array>\n"
    print "#include \"folio/text/unicode.h\"\n"
    print "namespace folio {"
    print "namespace {\n"
    print "// Each number is `how many codes << 4 | CharClass`, one behind the other from code 0 on."
    print "// clang-format off"
    print "constexpr uint32_t kCategoryRuns[] = {"
    line = "   "
    for (i = 1; i <= count; ++i) {
      if (length(line) + length(runs[i]) + 2 > 100) {
        print line
        line = "   "
      }
      line = line " " runs[i] ","
    }
    print line
    print "};"
    print "// clang-format on\n"
    print "constexpr auto kRanges = [] {"
    print "  std::array<uint32_t, std::size(kCategoryRuns)> ranges = {};"
    print "  uint32_t first = 0;"
    print "  for (size_t i = 0; i < ranges.size(); ++i) {"
    print "    ranges[i] = first << 4 | (kCategoryRuns[i] & 0xF);"
    print "    first += kCategoryRuns[i] >> 4;"
    print "  }"
    print "  return ranges;"
    print "}();\n"
    print "}  // namespace\n"
    print "std::span<const uint32_t> CharClassRanges() {"
    print "  return kRanges;"
    print "}\n"
    print "}  // namespace folio"
  }
' "$dir/PropList.txt" "$dir/UnicodeData.txt"
