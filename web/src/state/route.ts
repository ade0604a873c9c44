import { batch, signal } from "@preact/signals";

export const kScreens = ["play", "attn", "inside", "runs"] as const;
export type Screen = (typeof kScreens)[number];

// What can be chosen, with its name.
export type Options<T extends string = string> = readonly (readonly [value: T, label: string])[];

// The hash holds the whole view: #/attn?t=text&l=5&h=1.
export interface Route {
  screen: Screen;
  params: URLSearchParams;
}

function Parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const screen = kScreens.find((one) => one === path) ?? "play";
  return { screen, params: new URLSearchParams(query) };
}

export const route = signal<Route>(Parse(location.hash));
const left = new Map<Screen, URLSearchParams>(); // how each screen was when it was left

const kSettled = 200; // milliseconds; browsers refuse an address that changes all the time
let unsaid: ReturnType<typeof setTimeout> | undefined;

type Params = Record<string, string> | URLSearchParams;

export function HashOf(screen: Screen, params: Params = {}): string {
  const query = new URLSearchParams(params).toString();
  return `#/${screen}${query ? `?${query}` : ""}`;
}

function Hash(): string {
  return HashOf(route.value.screen, route.value.params);
}

// The address as it must be now.
export function Address(): string {
  clearTimeout(unsaid);
  if (Hash() !== location.hash) history.replaceState(null, "", Hash());
  return location.href;
}

function Show(next: Route, how: "push" | "replace"): void {
  if (how === "push") Address();
  left.set(next.screen, next.params);
  route.value = next;
  clearTimeout(unsaid);
  if (how === "replace") unsaid = setTimeout(Address, kSettled);
  else if (Hash() !== location.hash) history.pushState(null, "", Hash());
}

// Grows when an address comes from elsewhere: a link, the history, the address bar.
export const arrivals = signal(0);

function Arrive(): void {
  if (Hash() === location.hash) return;
  clearTimeout(unsaid);
  batch(() => {
    route.value = Parse(location.hash);
    ++arrivals.value;
  });
}

window.addEventListener("hashchange", Arrive);
window.addEventListener("popstate", Arrive);

// To a screen as it was left, with the model that is shown, or with the text that another one shows.
export function GoTo(screen: Screen, changes: Record<string, string> = {}): void {
  const params = new URLSearchParams(left.get(screen) ?? "");
  const model = route.value.params.get("m");
  if (model === null) params.delete("m");
  else params.set("m", model);
  const shown = route.value.params.get("t");
  if (shown !== null && screen !== "runs" && screen !== "play") params.set("t", shown);
  for (const [key, value] of Object.entries(changes)) params.set(key, value);
  Show({ screen, params }, "push");
}

// The screen of an address that names none.
export function OpenAt(screen: Screen): void {
  if (/^#?\/?$/.test(location.hash)) Show({ ...route.value, screen }, "replace");
}

// Null takes a parameter away.
export function SetParams(changes: Record<string, string | number | null>): void {
  const params = new URLSearchParams(route.value.params);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") params.delete(key);
    else params.set(key, String(value));
  }
  Show({ screen: route.value.screen, params }, "replace");
}

export function Param(name: string, otherwise = ""): string {
  return route.value.params.get(name) ?? otherwise;
}

// Which of `options` the address names; `otherwise`, or the first, if it names none.
export function Choice<T extends string>(name: string, options: Options<T>, otherwise?: T): T {
  const values = options.map(([value]) => value);
  return values.find((value) => value === Param(name)) ?? otherwise ?? (values[0] as T);
}

// A whole number in [low, high]; `otherwise` for what is none.
export function NumberParam(name: string, otherwise: number, low = 0, high = Infinity): number {
  const said = route.value.params.get(name);
  const value = said === null ? NaN : Number(said);
  return Number.isInteger(value) ? Math.min(Math.max(value, low), high) : otherwise;
}
