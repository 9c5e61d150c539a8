package host

import "path/filepath"

// LockDataDir locks a data directory for this process, as a running server does, and creates it if it does
// not exist. It returns an error that wraps ErrInUse if another process has locked the directory. store is
// the path of the embedded store, which might not exist. release unlocks the directory.
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
