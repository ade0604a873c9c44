import { batch, signal } from "@preact/signals";

// A failure of a request; `status` is 0 where nobody answered.
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = "",
  ) {
    super(message);
  }
}

const kNoModel = "model_not_found";
const kKeyName = "folio.key";
export const kUnreachable =
  "The service does not answer. The page continues by itself as soon as it does.";

// True where the service answered last time.
export const online = signal(true);
// Grows when what is known of the service may hold no more: it answers again, or knows a model by
// its id no longer.
export const doubt = signal(0);
// Set while the person is asked for the key. `refused`: the service did not accept the one before.
interface KeyQuestion {
  refused: boolean;
  answer: (key: string | null) => void; // with what was typed, or null to give up
}
export const keyQuestion = signal<KeyQuestion | null>(null);

let asked: Promise<boolean> | null = null;

// One question at a time, however many requests wait for its answer. `used`: the key that was refused.
async function AskForKey(used: string | null): Promise<boolean> {
  if (sessionStorage.getItem(kKeyName) !== used) return true; // it was typed meanwhile
  asked ??= new Promise<boolean>((resolve) => {
    const answer = (key: string | null) => {
      keyQuestion.value = null;
      asked = null;
      if (key !== null) sessionStorage.setItem(kKeyName, key);
      resolve(key !== null);
    };
    keyQuestion.value = { refused: used !== null, answer };
  });
  return asked;
}

async function FailureOf(response: Response): Promise<ApiFailure> {
  const said = (await response.json().catch(() => null)) as {
    error?: { message?: string; code?: string };
  } | null;
  const message = said?.error?.message ?? `${response.status} ${response.statusText}`;
  return new ApiFailure(response.status, message, said?.error?.code);
}

// Nobody answers any more: it is told, and what a request fails with.
export function Lost(): ApiFailure {
  online.value = false;
  return new ApiFailure(0, kUnreachable);
}

// An answer that is not an error. Asks for the key where the service wants one.
export async function Send(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const headers = new Headers(init.headers);
    const key = sessionStorage.getItem(kKeyName);
    if (key) headers.set("Authorization", `Bearer ${key}`);
    let response: Response;
    try {
      response = await fetch(path, { ...init, headers });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw Lost();
    }
    if (!online.peek())
      batch(() => {
        online.value = true;
        ++doubt.value;
      });
    if (response.ok) return response;
    if (response.status === 401 && (await AskForKey(key))) continue;
    const failure = await FailureOf(response);
    if (failure.code === kNoModel) ++doubt.value;
    throw failure;
  }
}

export async function Get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await Send(path, { signal })).json()) as T;
}

export async function Post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await SendJson(path, body, signal)).json()) as T;
}

export function SendJson(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return Send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

export function IsAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

// "" for what is told once for the whole page: nobody answers, or there is another model now.
export function MessageOf(error: unknown): string {
  if (error instanceof ApiFailure && (error.status === 0 || error.code === kNoModel)) return "";
  return error instanceof Error ? error.message : String(error);
}
