import { useEffect, useState } from "preact/hooks";

// How wide an element is, in whole pixels; 0 until it is there.
export function useWidth(find: () => Element | null | undefined): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = find();
    if (!element) return;
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)),
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
