package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"mainstay.dev/mainstay/storage/kv/embedded"
)

// Folders and files of the data directory, besides kubeconfigFile.
const (
	lockFile = "lock"
	pidFile  = "pid"
	pkiDir   = "pki"
	storeDir = "store"
)

// ErrInUse is returned when another process has the data directory.
var ErrInUse = errors.New("data directory is in use")

// dataDir is a data directory that this process alone has.
type dataDir struct {
	path string
	lock *flock.Flock
}

// openDataDir makes the folder if need be and takes it for this process. A
// folder left behind by a process that was killed is free again at once.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w; choose another one with --data-dir", err)
	}
	d := &dataDir{path: path, lock: flock.New(filepath.Join(path, lockFile), flock.SetPermissions(0o600))}
	taken, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("write to the data directory: %w; make it writable for this user, or choose another one with --data-dir", err)
	}
	if !taken {
		return nil, fmt.Errorf("%w: %s belongs to %s; stop it, or choose another one with --data-dir", ErrInUse, path, d.owner())
	}
	// Only for the message above; without it the lock works as well.
	_ = os.WriteFile(filepath.Join(path, pidFile), strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
	return d, nil
}

func (d *dataDir) owner() string {
	pid, err := os.ReadFile(filepath.Join(d.path, pidFile))
	if err != nil {
		return "another process"
	}
	return "process " + strings.TrimSpace(string(pid))
}

func (d *dataDir) pki() string   { return filepath.Join(d.path, pkiDir) }
func (d *dataDir) store() string { return filepath.Join(d.path, storeDir) }

func (d *dataDir) close() error {
	_ = os.Remove(filepath.Join(d.path, pidFile))
	if err := d.lock.Unlock(); err != nil {
		return fmt.Errorf("release the data directory: %w", err)
	}
	return nil
}

// explainStore says which store could not be opened, and what may be done.
func (d *dataDir) explainStore(err error) error {
	err = fmt.Errorf("open the store in %s: %w", d.store(), err)
	if errors.Is(err, embedded.ErrLostWrites) {
		err = fmt.Errorf("%w; or, to go on without them, start once with --accept-lost-writes", err)
	}
	return err
}
