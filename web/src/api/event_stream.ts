import { IsAbort, Lost } from "./http";

export interface StreamEvent {
  event: string;
  data: string;
  id: string; // "" if the event has none
}

// The events of a text/event-stream as they come. Ends with the stream; what is torn at its end is
// dropped. Fails as a request does where the service goes away.
export async function* EventsOf(response: Response): AsyncGenerator<StreamEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let next = { event: "message", data: [] as string[], id: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw IsAbort(error) ? error : Lost();
      });
      if (done) return;
      const lines = (held + value).split(/\r\n|\n|\r(?!$)/);
      held = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (next.data.length > 0) yield { ...next, data: next.data.join("\n") };
          next = { event: "message", data: [], id: "" };
          continue;
        }
        const [, field, said = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
        if (field === "data") next.data.push(said);
        else if (field === "event" || field === "id") next[field] = said;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
