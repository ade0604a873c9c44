#include "folio/backend/backend.h"
#include "folio/io/safetensors.h"

// Writes and reads a weight file, and starts the backend with the most libraries behind it.
int main(int, char** argv) {
  float weights[2] = {1.5f, -2.0f};
  const std::vector<folio::NamedTensor> tensors = {{"w", folio::Tensor(weights, {2})}};
  folio::WriteSafetensors(argv[1], tensors);
  const std::vector<float> read = folio::SafetensorsFile(argv[1]).ReadAs<float>("w");
  return read[1] == weights[1] && folio::MakeBackend("cpu")->name() == "cpu" ? 0 : 1;
}
