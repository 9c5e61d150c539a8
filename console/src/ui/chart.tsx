import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  values: (number | null)[];
}

/** A chart of values over time. times are seconds since 1970. */
export function Chart(props: { title: string; times: number[]; lines: Line[]; format: (value: number) => string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const style = getComputedStyle(host.current!);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--muted"), grid: { stroke: color("--border"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    const chart = new uPlot(
      {
        width: host.current!.clientWidth, height: 170, cursor: { drag: { x: false, y: false } }, legend: { live: true },
        scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map(props.format) }],
        series: [
          { value: (_, time) => (time ? new Date(time * 1000).toLocaleTimeString() : "") },
          ...props.lines.map((line, i) => ({
            label: line.label, stroke: color(`--series-${i % 8}`), width: 1.5, points: { show: false }, spanGaps: false,
            value: (_: uPlot, value: number | null) => (value === null ? "–" : props.format(value)),
          })),
        ],
      },
      [props.times, ...props.lines.map((line) => line.values)],
      host.current!,
    );
    const resized = new ResizeObserver(() => chart.setSize({ width: host.current?.clientWidth ?? 400, height: 170 }));
    resized.observe(host.current!);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [props.times, props.lines]);
  return (
    <figure>
      <figcaption>{props.title}</figcaption>
      <div ref={host} class="chart" />
    </figure>
  );
}
