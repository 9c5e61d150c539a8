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

// files is the file system interface of this package. It has few operations, so that a test can
// simulate a power loss between any two of them.
type files interface {
	read(name string) ([]byte, error)
	mode(name string) (fs.FileMode, error)
	// write writes and syncs a file. The name of the file is durable only after syncDir. An existing file is
	// not replaced atomically.
	write(name string, data []byte, mode fs.FileMode) error
	rename(from, to string) error
	mkdir(dir string) error
	// syncDir makes the names in a directory durable.
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
		err = f.Chmod(mode) // despite the umask
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
		return nil // Windows cannot sync directories
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir durably creates a directory and its missing parents with mode 0700. If the directory exists, MakeDir
// does not change it and returns no error.
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

// ensureDir creates the directory of keys and certificates, if it does not exist.
func ensureDir(fsys files, dir string) error {
	if err := makeDir(fsys, dir); err != nil {
		return fmt.Errorf("create the folder for keys and certificates: %w", err)
	}
	return nil
}

// content is the content of a file to write.
type content struct {
	name string
	data []byte
	mode fs.FileMode
}

// WriteFile creates or replaces a file atomically and durably. Readers see either the old or the new content,
// also after an error. After WriteFile has returned nil, the new content survives a crash.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	return writeFiles(system{}, content{file, data, mode})
}

// writeFiles replaces related files in one directory, in the given order. If the disk does not have enough
// space, no file is changed. After a crash, it is possible that only the first files were replaced.
func writeFiles(fsys files, all ...content) error {
	for _, c := range all {
		if err := fsys.write(tempName(c.name), c.data, c.mode); err != nil {
			return fmt.Errorf("write %s: %w", c.name, err)
		}
	}
	for _, c := range all {
		err := fsys.rename(tempName(c.name), c.name)
		if err == nil {
			err = fsys.syncDir(filepath.Dir(c.name))
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", c.name, err)
		}
	}
	return nil
}

// tempName returns the temporary name of a file that is not complete. After a crash, the next write overwrites
// the temporary file.
func tempName(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
}

// isFull reports whether an error was caused by a full disk.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
