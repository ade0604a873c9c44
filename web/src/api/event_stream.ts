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
  let next: StreamEvent = { event: "message", data: "", id: "" };
  let any = false;
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
          if (any) yield next;
          next = { event: "message", data: "", id: "" };
          any = false;
          continue;
        }
        const colon = line.indexOf(":");
        if (colon === 0) continue; // a comment
        const field = colon < 0 ? line : line.slice(0, colon);
        const said = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") {
          next.data += (any ? "\n" : "") + said;
          any = true;
        } else if (field === "event") {
          next.event = said;
        } else if (field === "id") {
          next.id = said;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
