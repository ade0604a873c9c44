// Line icons on a grid of 24.
const kPaths = {
  play: "M4 19.5V5.5M8 8h12M8 12h9M8 16h11",
  attn: "M4 4h5v5H4zM4 15h5v5H4zM15 15h5v5h-5zM11.5 4l8.5 8.5",
  inside: "M12 3l8 4.5-8 4.5-8-4.5zM4 12l8 4.5 8-4.5M4 16.5L12 21l8-4.5",
  runs: "M4 4v16h16M7 8c2 7 5 8.5 12 9",
  system: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 4v16M15 5v14M18 7v10",
  light:
    "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  dark: "M20 14.5A8.5 8.5 0 019.5 4 8.5 8.5 0 1020 14.5z",
  help: "M12 3.5a8.5 8.5 0 100 17 8.5 8.5 0 000-17zM9.7 9.5a2.4 2.4 0 114 1.8c-.9.7-1.7 1.2-1.7 2.4M12 16.7v.1",
} as const;

export type IconName = keyof typeof kPaths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d={kPaths[name]} />
    </svg>
  );
}
