import { useEffect, useRef, useState } from "preact/hooks";
import { theme } from "../state/theme";

// How wide an element is, in whole pixels; 0 until it is there.
export function useWidth<T extends Element>() {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!ref.current) return;
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)),
    );
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}

// Makes a canvas of so many CSS pixels, which are its units.
export function Sized(canvas: HTMLCanvasElement, width: number, height: number) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.scale(scale, scale);
  return context;
}

// Draws on a canvas of so many CSS pixels, anew when one of `changes` or the theme changes; `css` gives a colour
// of the page by its name.
export function useDrawing(
  size: { width: number; height: number },
  draw: (context: CanvasRenderingContext2D, css: (name: string) => string) => void,
  changes: unknown[],
) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!canvas.current || size.width <= 0) return;
    const style = getComputedStyle(canvas.current);
    draw(Sized(canvas.current, size.width, size.height), (name) => style.getPropertyValue(name));
  }, [size.width, size.height, theme.value, ...changes]);
  return canvas;
}

// A canvas of single pixels; 0 is one through which what is behind it is seen.
export function PixelImage(pixels: Uint32Array, columns: number): HTMLCanvasElement {
  const image = document.createElement("canvas");
  image.width = columns;
  image.height = pixels.length / columns;
  const bytes = new Uint8ClampedArray(pixels.buffer as ArrayBuffer);
  image.getContext("2d")?.putImageData(new ImageData(bytes, columns), 0, 0);
  return image;
}
