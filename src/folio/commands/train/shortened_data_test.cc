#include <gtest/gtest.h>

#include <string>

#include "folio/io/file.h"
#include "tests/kit/directory.h"
#include "tests/kit/program.h"

namespace folio {
namespace {

class ShortenedData : public InTemporaryDirectory {};

TEST_F(ShortenedData, EndsTrainingWithAMessage) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += static_cast<char>('a' + i * i % 23);
  WriteFileAtomically(At("text.txt"), text);
  const ProgramRun run =
      RunShell(At(""),
               "$F data prepare text.txt --out data --tokenizer char --quiet && "
               "{ $F train --data data --preset debug --out run --max-steps 1000000 --log-every 1 "
               "--quiet --no-config & pid=$!; "
               "until [ -s run/metrics.jsonl ]; do sleep 0.02; done; "
               "truncate -s 1000 data/train.bin; wait $pid; }");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_TRUE(Contains(run.err, "train.bin became shorter while it was read")) << run.err;
}

}  // namespace
}  // namespace folio
