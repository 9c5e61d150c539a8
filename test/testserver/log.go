package testserver

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
)

// Buffer collects output. The zero value is ready to use. It is safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns the output that has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// logTo sends the standard output and the standard error of a command to one log.
func logTo(cmd *exec.Cmd, log *Buffer) { cmd.Stdout, cmd.Stderr = log, log }

// Panics returns the lines of a server log that report a panic, a fatal error of the Go runtime or a data
// race, each with up to 19 following lines.
func Panics(log string) []string {
	var found []string
	lines := strings.Split(log, "\n")
	for i := 0; i < len(lines); i++ {
		if !tellsOfPanic(lines[i]) {
			continue
		}
		end := min(i+20, len(lines))
		found = append(found, strings.Join(lines[i:end], "\n"))
		i = end - 1
	}
	return found
}

func tellsOfPanic(line string) bool {
	lower := strings.ToLower(line)
	return strings.Contains(lower, "panic") || strings.Contains(line, "DATA RACE") || strings.Contains(line, "fatal error:")
}

// tail returns the last n lines of a log.
func tail(log string, n int) string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
