import { Bytes, Count } from "../format";
import { info } from "../state/server";

// Says why the first look inside takes a while, as long as it `waits`: the service makes a float32 copy.
export function FloatNote({ waits }: { waits: boolean }) {
  const { model, limits } = info.value ?? {};
  if (!waits || !model?.float_copy || model.float_copy.ready) return null;
  return (
    <p class="note" role="status">
      The service makes a float32 copy of the weights ({Bytes(model.float_copy.bytes)}) because the
      model is kept in another type. This happens once; the copy is dropped when nobody has looked
      inside for {Count(Math.ceil((limits?.trace_seconds ?? 0) / 60), "minute")}.
    </p>
  );
}
