package pebblefs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Open opens a database. It converts a panic caused by the content of the database into an error that wraps
// kv.ErrCorrupt.
func Open(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", kv.ErrCorrupt, r)
		}
	}()
	return pebble.Open(dir, o)
}

// Logger forwards Pebble's log messages to Log. Fatal errors do not end the process. Instead, Failed is
// called, which must stop writes.
type Logger struct {
	Log    *slog.Logger
	Failed func(error)
}

// Infof implements pebble.Logger.
func (l Logger) Infof(format string, args ...any) {
	if l.Log.Enabled(context.Background(), slog.LevelDebug) {
		l.Log.Debug("engine", "msg", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// Errorf implements pebble.Logger.
func (l Logger) Errorf(format string, args ...any) {
	l.Log.Warn("engine", "msg", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf implements pebble.Logger.
func (l Logger) Fatalf(format string, args ...any) {
	l.Failed(fmt.Errorf("engine: "+format, args...))
}

// IsFull reports whether a write failed because the disk is full or a quota is exceeded.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// FirstLine returns the first line of the message of an error of Pebble. Some messages continue with details
// and stack traces.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
