package main

import (
	"bytes"
	"fmt"
	"slices"
)

// The picture consists of panels, one below the other, that have the same time axis.
const (
	pictureWidth = 860
	panelHeight  = 110
	panelLeft    = 110
	panelTop     = 26
	panelBottom  = 12
	mebi         = 1 << 20
)

// panel is a panel of the picture. It shows one line.
type panel struct {
	title, unit string
	value       func(*sample) float64
}

func panels() []panel {
	return []panel{
		{"anonymous memory", "MiB", func(s *sample) float64 { return s.rss / mebi }},
		{"heap after a collection", "MiB", func(s *sample) float64 { return s.heap / mebi }},
		{"goroutines", "", func(s *sample) float64 { return s.goroutines }},
		{"open files and connections", "", func(s *sample) float64 { return s.fds }},
		{"store on disk", "MiB", func(s *sample) float64 { return s.store / mebi }},
		{"turns of the load", "thousand", func(s *sample) float64 { return s.turns / 1000 }},
	}
}

// picture draws samples as SVG. Vertical lines mark restarts; they are dashed for SIGTERM and solid for
// SIGKILL.
func picture(samples []*sample) []byte {
	var out bytes.Buffer
	all := panels()
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", pictureWidth, len(all)*panelHeight+20)
	fmt.Fprintln(&out, `<rect width="100%" height="100%" fill="white"/>`)
	if len(samples) > 1 {
		for i, p := range all {
			p.draw(&out, i*panelHeight, samples)
		}
		end := samples[len(samples)-1].seconds
		fmt.Fprintf(&out, `<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%.0f minutes</text>`+"\n",
			panelLeft, len(all)*panelHeight+12, pictureWidth-10, len(all)*panelHeight+12, end/60)
	}
	fmt.Fprintln(&out, "</svg>")
	return out.Bytes()
}

func (p panel) draw(out *bytes.Buffer, top int, samples []*sample) {
	var values []float64
	for _, s := range samples {
		values = append(values, p.value(s))
	}
	highest := max(slices.Max(values), 1)
	x := func(s *sample) float64 {
		return panelLeft + s.seconds/samples[len(samples)-1].seconds*(pictureWidth-10-panelLeft)
	}
	bottom := float64(top + panelHeight - panelBottom)
	y := func(value float64) float64 { return bottom - value/highest*(panelHeight-panelTop-panelBottom) }
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", panelLeft, top+18, p.title)
	fmt.Fprintf(out, `<text x="%d" y="%.0f" text-anchor="end">%.4g %s</text>`+"\n", panelLeft-6, y(highest)+4, highest, p.unit)
	fmt.Fprintf(out, `<text x="%d" y="%.0f" text-anchor="end">0</text>`+"\n", panelLeft-6, bottom)
	fmt.Fprintf(out, `<path d="M%d %.0fH%d" stroke="#bbb"/>`+"\n", panelLeft, bottom, pictureWidth-10)
	for i, s := range samples[1:] {
		if s.restarts == samples[i].restarts {
			continue
		}
		dashes := ` stroke-dasharray="3 3"`
		if s.restarts%2 == 0 {
			dashes = ""
		}
		fmt.Fprintf(out, `<path d="M%.1f %dV%.0f" stroke="#c66"%s/>`+"\n", x(s), top+panelTop, bottom, dashes)
	}
	fmt.Fprint(out, `<polyline fill="none" stroke="#246" points="`)
	for i, s := range samples {
		fmt.Fprintf(out, "%.1f,%.1f ", x(s), y(values[i]))
	}
	fmt.Fprintln(out, `"/>`)
}
