package audit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// logFile is the log backend. It writes one line per event.
type logFile struct {
	format string
	file   io.WriteCloser
	mu     struct {
		sync.Mutex
		// broken is true if the last line was written only in part, for example on a full
		// disk. The next event must begin on a new line.
		broken bool
	}
}

// openLog returns the log backend. It creates the file, so that a missing write permission is
// reported at startup.
func openLog(options *LogOptions) (*logFile, error) {
	log := &logFile{format: options.Format}
	if options.Path == "-" {
		log.file = standardOutput{}
		return log, nil
	}
	if err := os.MkdirAll(filepath.Dir(options.Path), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the audit log: %w", err)
	}
	created, err := os.OpenFile(options.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the audit log: %w", err)
	}
	if err := created.Close(); err != nil {
		return nil, fmt.Errorf("create the audit log: %w", err)
	}
	if options.MaxSize == 0 {
		log.file = &plainFile{path: options.Path}
		return log, nil
	}
	log.file = &lumberjack.Logger{
		Filename: options.Path, MaxAge: options.MaxAge, MaxBackups: options.MaxBackups, MaxSize: options.MaxSize, Compress: options.Compress,
	}
	return log, nil
}

func (l *logFile) name() string { return nameLog }

func (l *logFile) item(e encoded) []byte {
	if l.format == FormatLegacy {
		return append(AppendLegacy(nil, e.event), '\n')
	}
	return e.line
}

func (l *logFile) send(_ context.Context, items [][]byte) (lost int, err error) {
	for _, item := range items {
		if failed := l.write(item); failed != nil {
			lost, err = lost+1, failed
		}
	}
	return lost, err
}

func (l *logFile) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.broken {
		if _, err := l.file.Write([]byte{'\n'}); err != nil {
			return err
		}
		l.mu.broken = false
	}
	n, err := l.file.Write(line)
	l.mu.broken = err != nil && n > 0
	return err
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// standardOutput writes to os.Stdout. Close does nothing, because os.Stdout must remain open when
// the log is closed.
type standardOutput struct{}

func (standardOutput) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standardOutput) Close() error                { return nil }

// plainFile is a log file without rotation. The first write opens it.
type plainFile struct {
	path string
	file *os.File
}

func (f *plainFile) Write(p []byte) (int, error) {
	if f.file == nil {
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(p)
}

func (f *plainFile) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
