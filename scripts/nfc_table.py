#!/usr/bin/env python3
"""Writes src/folio/text/nfc_table.cc from Python's unicodedata (3.13 has Unicode 15.1):
  scripts/nfc_table.py > src/folio/text/nfc_table.cc
and with --check the numbers that nfc_test.cc compares its own with.
"""

import sys
import unicodedata

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def decompositions():
    for code in CODES:
        parts = unicodedata.decomposition(chr(code))
        if parts and not parts.startswith("<") and code not in HANGUL:
            first, second = (parts.split() + ["0"])[:2]
            yield code, int(first, 16), int(second, 16)


def classes():
    return [(code, unicodedata.combining(chr(code))) for code in CODES if unicodedata.combining(chr(code))]


def print_numbers(name, comment, numbers):
    print(comment)
    print(f"constexpr uint32_t {name}[] = {{")
    line = "   "
    for number in numbers:
        if len(line) + len(str(number)) + 2 > 100:
            print(line)
            line = "   "
        line += f" {number},"
    print(line)
    print("};")


def table():
    pairs, last = [], 0
    for code, first, second in decompositions():
        composes = second != 0 and unicodedata.normalize("NFC", chr(code)) == chr(code)
        pairs += [(code - last) << 1 | composes, first, second]
        last = code
    runs, last = [], 0
    for code, ccc in classes():
        if runs and code == last and runs[-1][2] == ccc:
            runs[-1][1] += 1
        else:
            runs.append([code - last, 1, ccc])
        last = code + 1
    print(f"// Written by scripts/nfc_table.py from Unicode {unicodedata.unidata_version}: do not edit.")
    print('#include "folio/text/nfc.h"\n')
    print("namespace folio {\nnamespace {\n\n// clang-format off")
    print_numbers("kPairs", "// For each character with a decomposition: `codes since the last << 1 |\n"
                  "// whether it is put together again`, the first and the second, 0 for none.", pairs)
    print_numbers("kRuns", "// Combining characters: codes since the last, how many in a row, their class.",
                  [number for run in runs for number in run])
    numbers, last = [], 0
    for code in CODES:
        if unicodedata.category(chr(code)) == "No":
            if numbers and code == last:
                numbers[-1] += 1
            else:
                numbers += [code - last, 1]
            last = code + 1
    print_numbers("kNumerals", "// Numbers that are neither digits nor letters (No): codes since the last, how many in a row.",
                  numbers)
    print("// clang-format on\n\n}  // namespace\n")
    print("std::span<const uint32_t> NfcPairs() {\n  return kPairs;\n}\n")
    print("std::span<const uint32_t> NfcRuns() {\n  return kRuns;\n}\n")
    print("std::span<const uint32_t> NumeralRuns() {\n  return kNumerals;\n}\n\n}  // namespace folio")


class Hash:
    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, text):
        for byte in text.encode() + b"\0":
            self.value = (self.value ^ byte) * 0x100000001B3 % 2**64


def check():
    single = Hash()
    for code in CODES:
        single.add(unicodedata.normalize("NFC", chr(code)))
    pool = {0x20, 0x61, 0x41, 0x1100, 0x1112, 0x1161, 0x1175, 0x11A7, 0x11A8, 0x11C2, 0xAC00, 0xAC01, 0xD788, 0x4E2D}
    for parts in decompositions():
        pool |= set(parts) - {0}
    pool |= {code for code, _ in classes()}
    pool = sorted(pool)
    random, state = Hash(), 1
    for _ in range(100000):
        text = ""
        for _ in range(1 + _ % 9):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            text += chr(pool[(state >> 33) % len(pool)])
        random.add(unicodedata.normalize("NFC", text))
    print(f"all characters 0x{single.value:016X}, {len(pool)} of them at random 0x{random.value:016X}")


check() if "--check" in sys.argv else table()
