package main

import (
	"bytes"
	"fmt"
	"html"
)

// Sizes of the chart, in SVG units.
const (
	chartWidth = 760
	labelWidth = 270
	valueWidth = 130
	rowHeight  = 44
	barHeight  = 14
	headHeight = 64
)

// style defines colors for light and dark backgrounds.
const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.note { font-size: 11px; fill: #57606a }
.peer { fill: #afb8c1 }
.mainstay { fill: #1f6feb }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .note { fill: #9198a1 }
  .peer { fill: #6e7681 }
  .mainstay { fill: #58a6ff }
}
</style>
`

// svg returns a bar chart of the rows that are marked for the chart. Each row has its own scale, because the
// units differ. The longer bar of a row has the full width.
func svg(r results) []byte {
	var charted []row
	for _, row := range r.rows {
		if row.chart {
			charted = append(charted, row)
		}
	}
	height := headHeight + rowHeight*len(charted) + 44
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(r.title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="title" x="0" y="18">%s</text>`+"\n", html.EscapeString(r.title))
	legend := func(x int, class, text string) {
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="32" width="12" height="12" rx="2"/><text x="%d" y="43">%s</text>`+"\n", class, x, x+18, text)
	}
	legend(labelWidth, "peer", "kube-apiserver's libraries + etcd")
	legend(labelWidth+240, "mainstay", "Mainstay")
	const full = chartWidth - labelWidth - valueWidth
	for i, row := range charted {
		y := headHeight + rowHeight*i
		longest := max(row.peer, row.mainstay)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-12, y+barHeight+5, html.EscapeString(row.name))
		for j, bar := range []struct {
			class string
			value float64
		}{{"peer", row.peer}, {"mainstay", row.mainstay}} {
			width := max(full*bar.value/longest, 1)
			top := y + j*(barHeight+2)
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/><text x="%.1f" y="%d">%s %s</text>`+"\n",
				bar.class, labelWidth, top, width, barHeight, labelWidth+width+8, top+barHeight-2, number(bar.value), html.EscapeString(row.unit))
		}
	}
	for i, note := range []string{r.measured, "Shorter is better. Each row has its own scale."} {
		fmt.Fprintf(&b, `<text class="note" x="0" y="%d">%s</text>`+"\n", height-24+16*i, html.EscapeString(note))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
