package telemetry

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// logStuck is how long one line may take to be written before the log counts as
// blocked. A blocked log (a pipe without a reader, a full disk) blocks requests.
const logStuck = 2 * time.Minute

// LogWriter passes lines on to an io.Writer and detects that it is stuck. It is
// safe for concurrent use.
type LogWriter struct {
	out io.Writer
	mu  struct {
		sync.Mutex
		writing int
		since   time.Time // when writing became greater than zero
	}
}

// NewLogWriter returns a LogWriter over out, which must take concurrent writes,
// as an *os.File does.
func NewLogWriter(out io.Writer) *LogWriter { return &LogWriter{out: out} }

func (l *LogWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.mu.writing++; l.mu.writing == 1 {
		l.mu.since = time.Now()
	}
	l.mu.Unlock()
	n, err := l.out.Write(p)
	l.mu.Lock()
	if l.mu.writing--; l.mu.writing > 0 {
		l.mu.since = time.Now() // one of several got through
	}
	l.mu.Unlock()
	return n, err
}

// Check is the health check "log".
func (l *LogWriter) Check() Check {
	return Check{Name: "log", Run: func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.writing == 0 {
			return nil
		}
		if took := time.Since(l.mu.since); took > logStuck {
			return fmt.Errorf("a line has not been written for %s", took.Round(time.Second))
		}
		return nil
	}}
}
