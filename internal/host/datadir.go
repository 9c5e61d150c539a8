package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Folders and files of the data directory, in addition to kubeconfigFile.
const (
	lockFile = "lock"
	pidFile  = "pid"
	pkiDir   = "pki"
	storeDir = "store"

	historyDir = "history"
)

// ErrInUse reports that another process has locked the data directory.
var ErrInUse = errors.New("data directory is in use")

// dataDir is a data directory locked by this process.
type dataDir struct {
	path string
	lock *flock.Flock
}

// openDataDir locks the directory, and creates it if it does not exist. The operating system releases
// the lock of a killed process.
func openDataDir(path string) (*dataDir, error) {
	if err := pki.MakeDir(path); err != nil {
		return nil, fmt.Errorf("create the data directory: %w; choose another one with --data-dir", err)
	}
	d := &dataDir{path: path, lock: flock.New(filepath.Join(path, lockFile), flock.SetPermissions(0o600))}
	taken, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("write to the data directory: %w; make it writable for this user, or choose another one with --data-dir", err)
	}
	if !taken {
		return nil, fmt.Errorf("%w: %s belongs to %s; stop it, or choose another one with --data-dir", ErrInUse, path, d.owner())
	}
	// The file is used only in the error message above, so errors are ignored.
	_ = os.WriteFile(filepath.Join(path, pidFile), strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
	return d, nil
}

// dataDirInUse returns an error that wraps ErrInUse if another process has locked the data directory. It
// leaves no new files in the directory.
func dataDirInUse(path string) error {
	if _, err := os.Stat(filepath.Join(path, lockFile)); err != nil {
		return nil
	}
	d, err := openDataDir(path)
	if errors.Is(err, ErrInUse) {
		return err
	}
	if err == nil {
		_ = d.close() // the directory was only tested
	}
	return nil
}

func (d *dataDir) owner() string {
	pid, err := os.ReadFile(filepath.Join(d.path, pidFile))
	if err != nil || len(pid) == 0 {
		return "another process"
	}
	return "process " + strings.TrimSpace(string(pid))
}

func (d *dataDir) store() string { return filepath.Join(d.path, storeDir) }

// history returns the folder of the history.
func (d *dataDir) history() string { return HistoryDir(d.path) }

// moveHistory calls close, which must close the history. It then renames the folder of the history and
// returns its new name.
func (d *dataDir) moveHistory(close func() error) (to string, err error) {
	if err := close(); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		to = d.history() + "." + strconv.Itoa(n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return to, os.Rename(d.history(), to)
}

// HistoryDir returns the folder of the history in a data directory.
func HistoryDir(dataDir string) string { return filepath.Join(dataDir, historyDir) }

// pki returns the folder of keys and certificates, or pki.InMemory if d is nil.
func (d *dataDir) pki() string {
	if d == nil {
		return pki.InMemory
	}
	return filepath.Join(d.path, pkiDir)
}

func (d *dataDir) close() error {
	_ = os.Remove(filepath.Join(d.path, pidFile))
	if err := d.lock.Unlock(); err != nil {
		return fmt.Errorf("release the data directory: %w", err)
	}
	return nil
}

// claimStore creates the directory of the store if it does not exist. Unless force is true, it returns
// an error if the data directory contains keys without a store, or files of another program.
func (d *dataDir) claimStore(force bool) error {
	exists, err := embedded.Exists(d.store())
	if err != nil || exists {
		return err
	}
	if !force {
		if err := d.checkNew(); err != nil {
			return err
		}
	}
	if err := embedded.Claim(d.store()); err != nil {
		return d.explainStore(err)
	}
	return nil
}

// checkNew returns an error if a new store must not be created in the data directory.
func (d *dataDir) checkNew() error {
	keys, err := os.ReadDir(d.pki())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if len(keys) > 0 {
		return fmt.Errorf("there are keys in %s but no store in %s: put the store back, or restore a snapshot with \"mainstay snapshot restore\"; or, to create an empty store, start once with --new-store",
			d.pki(), d.store())
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	var foreign []string
	for _, entry := range entries {
		if !isOwn(entry.Name()) {
			foreign = append(foreign, entry.Name())
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	shown := foreign[:min(len(foreign), 3)]
	return fmt.Errorf("the data directory %s contains files of another program (%d files, such as %s): choose an empty one with --data-dir, or start once with --new-store to create a store there",
		d.path, len(foreign), strings.Join(shown, ", "))
}

// isOwn reports whether an entry of a data directory belongs to the server or to the file system.
func isOwn(name string) bool {
	switch name {
	case lockFile, pidFile, pkiDir, storeDir, historyDir, kubeconfigFile, "lost+found":
		return true
	}
	return strings.HasPrefix(name, storeDir+".") || strings.HasPrefix(name, historyDir+".") || strings.HasPrefix(name, "."+kubeconfigFile)
}

// explainStore adds the path of the store to an error that occurred when the store was opened. If writes
// were lost, it also adds the flag that accepts the loss.
func (d *dataDir) explainStore(err error) error {
	err = fmt.Errorf("open the store in %s: %w", d.store(), err)
	if errors.Is(err, embedded.ErrLostWrites) {
		err = fmt.Errorf("%w; or, to continue without them, start once with --accept-lost-writes", err)
	}
	return err
}
