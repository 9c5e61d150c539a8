package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reloadPeriod is how often it is looked whether files have changed.
const reloadPeriod = 2 * time.Second

// fileReloader are those that flags name and that may change while the server runs:
// certificates, keys and authorities. They are few and small, so they are read
// and compared every time; times of changes, and what the file system tells of
// them, are not to be relied on where files are swapped by links or mounts.
// It is safe for concurrent use.
type fileReloader struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		given []*watchedFiles
	}
}

// watchedFiles are files that are taken in together, such as a certificate and its key.
type watchedFiles struct {
	flag     string
	names    []string
	load     func(contents [][]byte) error
	contents [][]byte // that are in force
	// lastError is what is wrong with what the files hold now; it is told once.
	lastError string
}

// add reads files, and has take take them in now and whenever they change. What
// take refuses is not in force; what was taken before is, still. It must not
// keep waiting.
func (f *fileReloader) add(flag string, take func(contents [][]byte) error, names ...string) error {
	g := &watchedFiles{flag: flag, names: names, load: take}
	if _, err := g.reload(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.given = append(f.mu.given, g)
	return nil
}

// reload takes in what has changed, and tells whether anything has.
func (f *fileReloader) reload() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.mu.given {
		taken, err := g.reload()
		switch {
		case err == nil:
			g.lastError = ""
		case err.Error() != g.lastError:
			g.lastError = err.Error()
			f.logger.Error("a file has changed but cannot be used: what it held before stays in force", "flag", g.flag, "err", err)
		}
		if taken {
			changed = true
			f.logger.Info("a file has changed and was read again", "flag", g.flag, "files", g.names)
		}
	}
	return changed
}

func (g *watchedFiles) reload() (taken bool, err error) {
	contents := make([][]byte, len(g.names))
	for i, name := range g.names {
		if contents[i], err = os.ReadFile(name); err != nil {
			return false, fmt.Errorf("read %s: %w", g.flag, err)
		}
	}
	if slices.EqualFunc(contents, g.contents, bytes.Equal) {
		return false, nil
	}
	if err := g.load(contents); err != nil {
		return false, fmt.Errorf("read %s: %s: %w", g.flag, g.names[0], err)
	}
	g.contents = contents
	return true, nil
}
