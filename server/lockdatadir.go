package server

import "path/filepath"

// LockDataDir takes a data directory for this process, as a server does, so that
// none can run on it meanwhile; ErrInUse is returned when one does. It makes the
// folder if need be. store is the folder of its store, which may not be there;
// release gives the directory back.
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
