package host

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reloadPeriod is the interval at which files are checked for changes.
const reloadPeriod = 2 * time.Second

// fileReloader reloads the files that flags name when their content changes: certificates, keys, CA bundles
// and configurations. The files are few and small, so each check reads and compares all of them.
// Modification times and file system events are unreliable for files that are replaced through links
// or mounts. It is safe for concurrent use.
type fileReloader struct {
	logger *slog.Logger
	mu     struct {
		sync.Mutex
		watched []*watchedFiles
	}
}

// watchedFiles are files that are loaded together, such as a certificate and its key.
type watchedFiles struct {
	flag     string
	names    []string
	load     func(contents [][]byte) error
	contents [][]byte // the loaded contents
	// lastError is the last logged error of these files; "" after they were read without an error. An
	// error is logged again only if it changes.
	lastError string
}

// add reads files and calls load with their contents. It returns an error if a file cannot be read or load
// returns an error. Otherwise, load is called again after each change; if it returns an error then, the
// previous contents stay in effect. load must not block.
func (f *fileReloader) add(flag string, load func(contents [][]byte) error, names ...string) error {
	g := &watchedFiles{flag: flag, names: names, load: load}
	if _, err := g.reload(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.watched = append(f.mu.watched, g)
	return nil
}

// reload loads the files that have changed, and reports whether any file has changed.
func (f *fileReloader) reload() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.mu.watched {
		loaded, err := g.reload()
		switch {
		case err == nil:
			g.lastError = ""
		case err.Error() != g.lastError:
			g.lastError = err.Error()
			f.logger.Error("a changed file is invalid: its previous contents remain in effect", "flag", g.flag, "err", err)
		}
		if loaded {
			changed = true
			f.logger.Info("a file has changed and was read again", "flag", g.flag, "files", g.names)
		}
	}
	return changed
}

func (g *watchedFiles) reload() (loaded bool, err error) {
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
