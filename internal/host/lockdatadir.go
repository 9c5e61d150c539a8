package host

import "path/filepath"

// LockDataDir locks a data directory for this process, as a running server does.
// The error is ErrInUse if another process holds the lock. The directory is
// created if it does not exist. store is the path of its store, which may not
// exist; release unlocks the directory.
func LockDataDir(path string) (store string, release func() error, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, err
	}
	d, err := openDataDir(path)
	if err != nil {
		return "", nil, err
	}
	return d.store(), d.close, nil
}
