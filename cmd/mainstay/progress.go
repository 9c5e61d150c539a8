package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows the progress of an operation in one line of a terminal. Without a terminal, it shows nothing.
type progress struct {
	out   io.Writer // nil disables it
	last  time.Time
	drawn bool
}

const (
	progressPeriod = 100 * time.Millisecond
	progressWidth  = 30
)

func newProgress(out io.Writer) *progress {
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{out: out}
		}
	}
	return &progress{}
}

// show draws a progress bar or, if total is 0, only the amount that is done. It redraws at most once per
// progressPeriod.
func (p *progress) show(what string, done, total int64) {
	if p.out == nil || time.Since(p.last) < progressPeriod && done != total {
		return
	}
	p.last, p.drawn = time.Now(), true
	if total <= 0 {
		fmt.Fprintf(p.out, "\r\x1b[K%s %d", what, done)
		return
	}
	full := int(min(done, total) * progressWidth / total)
	fmt.Fprintf(p.out, "\r\x1b[K[%s%s] %d/%d %s", strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full), done, total, what)
}

// end clears the progress line.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// countingReader is a reader that shows as progress how many bytes were read.
type countingReader struct {
	io.Reader
	progress    *progress
	done, total int64 // bytes; total is 0 if unknown
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.done += int64(n)
	c.progress.show("bytes", c.done, c.total)
	return n, err
}
