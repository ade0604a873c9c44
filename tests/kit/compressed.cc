#include "tests/kit/compressed.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <vector>

namespace folio {

std::string Compressed(std::string_view bytes, std::string_view how) {
  std::vector<char> out(bytes.size() + (size_t{1} << 20));
  size_t used = 0;
  archive* made = archive_write_new();
  archive_write_set_format_raw(made);
  EXPECT_EQ(archive_write_add_filter_by_name(made, std::string(how).c_str()), ARCHIVE_OK) << how;
  archive_write_set_bytes_in_last_block(made, 1);  // no zeros behind the stream
  EXPECT_EQ(archive_write_open_memory(made, out.data(), out.size(), &used), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  EXPECT_EQ(archive_write_header(made, entry), ARCHIVE_OK);
  EXPECT_EQ(archive_write_data(made, bytes.data(), bytes.size()),
            static_cast<la_ssize_t>(bytes.size()));
  EXPECT_EQ(archive_write_close(made), ARCHIVE_OK);
  archive_entry_free(entry);
  archive_write_free(made);
  return {out.data(), used};
}

}  // namespace folio
