import { EventsOf, type StreamEvent } from "./event_stream";
import { doubt, IsAbort, Send } from "./http";

// Events of the runs come as they happen. One tab of a browser holds the stream (a browser opens
// only six connections to a service) and tells the others; a hidden tab gives it up.
type Listener = (event: StreamEvent) => void;

const kName = "folio-events";
const kFirstWait = 500; // milliseconds until the first new try; twice as long each time
const kLongestWait = 8000;
const kHiddenFor = 5000; // milliseconds until a hidden tab gives up

const listeners = new Set<Listener>();
const channel = new BroadcastChannel(kName);
let last = ""; // id; the next stream begins behind it
let stop: AbortController | null = null;
let hiding: ReturnType<typeof setTimeout> | undefined;

function Deliver(event: StreamEvent): void {
  if (event.id !== "") last = event.id;
  for (const listener of listeners) listener(event);
}

channel.onmessage = (message: MessageEvent<StreamEvent>) => Deliver(message.data);

function Wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => resolve());
  });
}

async function Lead(signal: AbortSignal): Promise<void> {
  let ended = false; // a stream: the next one may be another service's
  for (let wait = kFirstWait; !signal.aborted; wait = Math.min(2 * wait, kLongestWait)) {
    try {
      const headers: HeadersInit = last === "" ? {} : { "Last-Event-ID": last };
      const response = await Send("api/events", { headers, signal });
      if (ended) ++doubt.value;
      ended = true;
      for await (const event of EventsOf(response)) {
        wait = kFirstWait;
        Deliver(event);
        channel.postMessage(event);
      }
    } catch (error) {
      if (IsAbort(error)) return;
    }
    await Wait(wait, signal);
  }
}

function Start(): void {
  if (stop !== null || listeners.size === 0 || document.hidden) return;
  const made = new AbortController();
  stop = made;
  // Only secure origins have locks; without them every tab has its own stream.
  if (!navigator.locks) void Lead(made.signal);
  else
    navigator.locks
      .request(kName, { signal: made.signal }, () => Lead(made.signal))
      .catch(() => {});
}

function End(): void {
  stop?.abort();
  stop = null;
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(End, kHiddenFor);
  else Start();
});

export function Listen(listener: Listener): () => void {
  listeners.add(listener);
  Start();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) End();
  };
}
