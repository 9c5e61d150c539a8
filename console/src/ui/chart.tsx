import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  values: (number | null)[];
}

const height = 170;
/** The space on the right, in pixels: half of the width of a time label, which is centered at its line of the grid. */
const rightPadding = 36;
const powersOfTwo = Array.from({ length: 50 }, (_, i) => 2 ** i);

/** A chart of values over time. times are seconds since 1970. binary selects powers of two for the lines of the grid. */
export function Chart(props: { title: string; times: number[]; lines: Line[]; format: (value: number) => string; binary?: boolean }) {
  const host = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const color = colorsOf(host.current!);
    const axis = { stroke: color("--muted"), grid: { stroke: color("--border"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    const chart = new uPlot(
      {
        width: host.current!.clientWidth, height, padding: [null, rightPadding, null, null], cursor: { drag: { x: false, y: false } }, legend: { live: true },
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, space: 80, values: (_, times) => times.map((time) => clock(time, times)) },
          { ...axis, size: 64, values: (_, values) => values.map(props.format), ...(props.binary ? { incrs: powersOfTwo } : {}) },
        ],
        series: [
          { label: "Time", value: (_, time) => (time ? new Date(time * 1000).toLocaleTimeString() : "") },
          ...props.lines.map((line, i) => {
            const stroke = color(`--series-${i % 8}`);
            return { label: line.label, stroke, width: 1.5, points: { size: 5, fill: stroke }, spanGaps: false, value: (_: uPlot, value: number | null) => (value === null ? "–" : props.format(value)) };
          }),
        ],
      },
      [props.times, ...props.lines.map((line) => line.values)],
      host.current!,
    );
    const resized = new ResizeObserver(() => chart.setSize({ width: host.current?.clientWidth ?? 400, height }));
    resized.observe(host.current!);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [props.times, props.lines, theme]);
  return (
    <figure>
      <figcaption>{props.title}</figcaption>
      <div ref={host} class="chart" />
    </figure>
  );
}

/** Formats a time of the axis, with seconds if the distance of the times is less than a minute. */
function clock(time: number, times: number[]): string {
  const seconds = times.length > 1 && times[1]! - times[0]! < 60;
  return new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
}

/** Returns a function that resolves a variable of the style sheet to a color, because a canvas does not support light-dark(). */
function colorsOf(host: HTMLElement): (variable: string) => string {
  return (variable) => {
    const probe = host.appendChild(document.createElement("span"));
    probe.style.color = `var(${variable})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

/** Returns a number that changes with the theme of the page. */
function useTheme(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const changed = (): void => setVersion((n) => n + 1);
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    return () => {
      observer.disconnect();
      system.removeEventListener("change", changed);
    };
  }, []);
  return version;
}
