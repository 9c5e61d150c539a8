package pebblefs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileMode is the mode of all files of a store, which may contain unencrypted secrets.
const fileMode fs.FileMode = 0o600

// Private wraps the file system of the operating system and sets the mode of new files to 0600. Pebble itself
// leaves the mode to the umask.
type Private struct{ vfs.FS }

// Unwrap implements vfs.FS.
func (p Private) Unwrap() vfs.FS { return p.FS }

// Create implements vfs.FS.
func (p Private) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return restrictFile(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (p Private) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.ReuseForWrite(oldname, newname, category)
	return restrictFile(newname, f, err)
}

// OpenReadWrite implements vfs.FS.
func (p Private) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, options...)
	return restrictFile(name, f, err)
}

func restrictFile(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Lock implements vfs.FS.
func (p Private) Lock(name string) (closer io.Closer, err error) {
	if closer, err = p.FS.Lock(name); err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		return nil, errors.Join(err, closer.Close())
	}
	return closer, nil
}

// Protect sets the mode of all files in a directory to 0600, because versions without Private created files
// with other modes. It returns the first error of the file system.
func Protect(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() == fileMode {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, entry.Name()), fileMode); err != nil {
			return err
		}
	}
	return nil
}
