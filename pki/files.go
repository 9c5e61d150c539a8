package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// files are the operations that this package needs of a file system, few enough
// that a test can cut the power between any two of them.
type files interface {
	read(name string) ([]byte, error)
	mode(name string) (fs.FileMode, error)
	// write makes a file that is durable under its name once syncDir was called;
	// one of that name is replaced, at no moment that matters.
	write(name string, data []byte, mode fs.FileMode) error
	rename(from, to string) error
	mkdir(dir string) error
	// syncDir makes the names in a folder durable.
	syncDir(dir string) error
}

// system is the operating system's file system.
type system struct{}

func (system) read(name string) ([]byte, error) { return os.ReadFile(name) }
func (system) rename(from, to string) error     { return os.Rename(from, to) }
func (system) mkdir(dir string) error           { return os.Mkdir(dir, 0o700) }

func (system) mode(name string) (fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func (system) write(name string, data []byte, mode fs.FileMode) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask is
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func (system) syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir makes a folder that only its owner may enter, and those it is in,
// durably; one that is there is left as it is.
func MakeDir(dir string) error { return makeDir(system{}, dir) }

func makeDir(fsys files, dir string) error {
	_, err := fsys.mode(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.syncDir(parent)
}

// ensureDir makes the folder for keys and certificates.
func ensureDir(fsys files, dir string) error {
	if err := makeDir(fsys, dir); err != nil {
		return fmt.Errorf("make the folder for keys and certificates: %w", err)
	}
	return nil
}

// content is what a file is to hold.
type content struct {
	name string
	data []byte
	mode fs.FileMode
}

// WriteFile replaces a file at once: whoever reads it finds the old content or
// the new one, also after a crash, and the new one after a crash that comes
// later.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	return writeFiles(system{}, content{file, data, mode})
}

// writeFiles replaces files of one folder that belong together: where there is
// no room for all of them, none is touched, and after a crash there are none of
// the new ones, all, or the first of them.
func writeFiles(fsys files, all ...content) error {
	for _, c := range all {
		if err := fsys.write(unfinished(c.name), c.data, c.mode); err != nil {
			return fmt.Errorf("write %s: %w", c.name, err)
		}
	}
	for _, c := range all {
		err := fsys.rename(unfinished(c.name), c.name)
		if err == nil {
			err = fsys.syncDir(filepath.Dir(c.name))
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", c.name, err)
		}
	}
	return nil
}

// unfinished is the name of a file that is being written. One that a crash has
// left is overwritten by the next attempt.
func unfinished(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
}

// isFull reports whether a file could not be written because the disk is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
