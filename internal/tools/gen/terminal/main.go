// Command terminal runs the commands of a script and writes them with their output as an SVG image of
// a terminal.
//
// usage: mainstay run -- go run ./internal/tools/gen/terminal SCRIPT IMAGE
//
// Each line of SCRIPT is a command, which bash runs in the current directory. The output of failed commands is
// recorded too. The program fails only if it cannot read SCRIPT, start a command, or write IMAGE.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: terminal SCRIPT IMAGE")
		os.Exit(2)
	}
	if err := record(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "terminal: %v\n", err)
		os.Exit(1)
	}
}

func record(script, image string) error {
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	var lines []line
	for command := range strings.Lines(string(text)) {
		command = strings.TrimSpace(command)
		if command == "" {
			continue
		}
		lines = append(lines, wrap(line{"$ " + command, true})...)
		output, err := exec.Command("bash", "-c", command).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("run %q: %w", command, err)
		}
		for text := range strings.Lines(string(output)) {
			lines = append(lines, wrap(line{strings.TrimRight(text, "\r\n"), false})...)
		}
		time.Sleep(pause)
	}
	return os.WriteFile(image, render(lines), 0o644)
}

// pause is the time between two commands. It gives controllers time to act.
const pause = 200 * time.Millisecond

// line is a line of the terminal.
type line struct {
	text    string
	command bool // true for a command, false for output
}

// columns is the width of the terminal, in characters.
const columns = 130

// wrap splits a line into lines that fit the width of the terminal.
func wrap(l line) []line {
	var lines []line
	runes := []rune(l.text)
	for len(runes) > columns {
		lines = append(lines, line{string(runes[:columns]), l.command})
		runes = runes[columns:]
	}
	return append(lines, line{string(runes), l.command})
}

// Sizes in SVG units.
const (
	characterWidth = 7.2
	lineHeight     = 17
	padding        = 14
)

func render(lines []line) []byte {
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.text))
	}
	var b bytes.Buffer
	w, h := 2*padding+int(float64(width)*characterWidth), 2*padding+lineHeight*len(lines)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="terminal session">`+"\n", w, h, w, h)
	b.WriteString("<style>text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre } .command { fill: #7ee787 }</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", w, h)
	for i, l := range lines {
		class := ""
		if l.command {
			class = ` class="command"`
		}
		fmt.Fprintf(&b, `<text%s x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", class, padding, padding+lineHeight*i+12, html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
