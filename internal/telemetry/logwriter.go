package telemetry

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// stuckTimeout is the duration of a write after which the log counts as blocked. A blocked log also
// blocks requests. Possible causes are a pipe without a reader and a full disk.
const stuckTimeout = 2 * time.Minute

// LogWriter forwards writes to an io.Writer, and detects writes that block. It is safe for
// concurrent use.
type LogWriter struct {
	out io.Writer
	mu  struct {
		sync.Mutex
		writing int
		since   time.Time // when writing became greater than zero
	}
}

// NewLogWriter returns a LogWriter for out, which must support concurrent writes, like *os.File.
func NewLogWriter(out io.Writer) *LogWriter { return &LogWriter{out: out} }

// Write implements io.Writer.
func (l *LogWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.mu.writing++; l.mu.writing == 1 {
		l.mu.since = time.Now()
	}
	l.mu.Unlock()
	n, err := l.out.Write(p)
	l.mu.Lock()
	if l.mu.writing--; l.mu.writing > 0 {
		l.mu.since = time.Now() // a concurrent write succeeded, so the log is not blocked
	}
	l.mu.Unlock()
	return n, err
}

// Check returns the health check "log", which fails if no write has completed for more than two
// minutes although there are pending writes.
func (l *LogWriter) Check() Check {
	return Check{Name: "log", Run: func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.writing == 0 {
			return nil
		}
		if took := time.Since(l.mu.since); took > stuckTimeout {
			return fmt.Errorf("a line has not been written for %s", took.Round(time.Second))
		}
		return nil
	}}
}
